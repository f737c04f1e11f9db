"""A hook of MkDocs for links from the docs to other files of the repository.

In a checkout `../deploy/` is right; the site has only what is below docs/. There such a link leads
to the repository's web page, and is plain text while `repo_url` of mkdocs.yml is not set.
"""

import posixpath
import re
from typing import Any, Final

_LINK: Final = re.compile(r"\[([^\]]*)\]\((\.\./[^)\s]*)\)")


def link_on_site(text: str, link: str, page: str, repository: str | None) -> str:
    """A link of a page (`operations.md`), as it is on the site."""
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), link))
    if path == "docs" or path.startswith("docs/"):
        return f"[{text}]({link})"
    return text if repository is None else f"[{text}]({repository.rstrip('/')}/blob/main/{path})"


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Called by MkDocs with each page."""
    source: str = page.file.src_uri
    repository: str | None = config.repo_url or None
    return _LINK.sub(lambda found: link_on_site(found[1], found[2], source, repository), markdown)

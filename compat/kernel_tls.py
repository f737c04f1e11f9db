"""Kernel TLS proven on a kernel that has it: User Mode Linux with this machine's files as its root.

Rules: the check is left out where `linux.uml` is not installed (Debian: user-mode-linux) or the
checks do not run as root. Nothing is measured there: User Mode Linux is slow.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from compat.checks import CheckError, check, expect
from testkit.process import BrokerProcess

ROOT = Path(__file__).parent.parent
SECONDS = 1_200
TESTS = "tests/server/test_kernel_tls.py"
MODULES = ["gf128mul", "ghash-generic", "gcm", "ctr", "tls"]
# Modules are loaded without a package for it; then the tests, and the kernel's counters.
INIT = """\
#!/bin/sh
export HOME=/tmp PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin
cd {root}
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs tmpfs /tmp
ip link set lo up
{python} -c "import ctypes, glob, os
for name in {modules}:
    where = '/usr/lib/uml/modules/' + os.uname().release + '/**/' + name + '.ko'
    for path in glob.glob(where, recursive=True):
        ctypes.CDLL(None).syscall(313, os.open(path, os.O_RDONLY), b'', 0)"
{python} -m pytest -q -p no:cacheprovider {tests}
cat /proc/net/tls_stat
exec {python} -c "import ctypes
ctypes.CDLL(None).reboot(0x4321FEDC)"
"""


@check("kernel-tls")
def the_kernel_encrypts_and_the_bytes_are_the_same(_: BrokerProcess) -> str:
    """The tests of its connections, and what the kernel has counted."""
    uml = shutil.which("linux.uml")
    if uml is None or os.geteuid() != 0:
        return "left out: no User Mode Linux here (Debian: user-mode-linux), or not root"
    with TemporaryDirectory() as folder:
        init = Path(folder) / "init"
        init.write_text(INIT.format(root=ROOT, python=sys.executable, tests=TESTS, modules=MODULES))
        init.chmod(0o700)
        done = subprocess.run(
            [uml, "mem=1500M", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "rw",
             "con=null", "con0=fd:0,fd:1", "quiet", f"init={init}"],
            check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS,
        )  # fmt: skip
    said = done.stdout
    counted = dict(re.findall(r"^(Tls\w+)\s+(\d+)", said, re.MULTILINE))
    passed = re.search(r"(\d+) passed", said)
    problems = re.search(r"\d+ (failed|error)", said)
    expect(passed is not None and problems is None, said[-3000:])
    if not int(counted.get("TlsTxSw", "0")) or int(counted.get("TlsDecryptError", "1")):
        raise CheckError(f"the kernel has counted {counted}")
    assert passed is not None
    return f"{passed[0]}, TlsTxSw {counted['TlsTxSw']}, TlsDecryptError 0"

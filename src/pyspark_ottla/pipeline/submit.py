"""A pipeline as the program of `spark-submit`, which starts Spark by itself.

    from pyspark_ottla.pipeline.submit import main
    main()

is a whole program: `spark-submit job.py clicks.yaml --once`.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the file that the command line names; master and settings are spark-submit's."""
    from pyspark_ottla.pipeline.checking import load
    from pyspark_ottla.pipeline.problems import PipelineError
    from pyspark_ottla.pipeline.running import run_pipeline

    parser = argparse.ArgumentParser(description="Run an Ottla pipeline.")
    parser.add_argument("file")
    parser.add_argument(
        "--once", action="store_true", help="process all available records, then stop"
    )
    parser.add_argument("--bootstrap", help="brokers to connect to; overrides the file")
    given = parser.parse_args(arguments)
    try:
        pipeline = load(given.file, look_into_sql=False)
        if given.bootstrap:
            pipeline = replace(pipeline, bootstrap=given.bootstrap)
        run_pipeline(pipeline, once=given.once)
    except PipelineError as problem:
        sys.exit(str(problem))


if __name__ == "__main__":
    main()

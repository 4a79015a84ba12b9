"""Write the tables of documents from a store of results, or check that they are as it gives them.

    python tools/write_tables.py                    # README.md and docs/RESULTS.md
    python tools/write_tables.py --check            # writes nothing; 1 if a table differs
    python tools/write_tables.py --store S FILE.md

A table stands between a line `<!-- table NAME -->` and a line `<!-- end -->`; NAME is one of those
that a report has: summary, table1, table1-numbers, over-table1, generalisation, costs, origins, ...
"""

import argparse
import sys
from pathlib import Path

from pomp.core.errors import PompError
from pomp.experiments.reporting.contents import write_document
from pomp.experiments.reporting.documents import fill_blocks, has_blocks
from pomp.experiments.reporting.numbers import read_numbers

ROOT = Path(__file__).resolve().parent.parent
STORE = ROOT / "results" / "cells.jsonl.gz"
PAGES = [ROOT / "README.md", ROOT / "docs" / "RESULTS.md"]


def main(arguments: list[str]) -> int:
    """Write or check the tables; 1 if one differs, 2 if there is something wrong with a page."""
    parser = argparse.ArgumentParser(description="Write the tables of documents from a store.")
    parser.add_argument("pages", nargs="*", type=Path, default=PAGES)
    parser.add_argument("--store", type=Path, default=STORE, help="folder of results, or .jsonl.gz")
    parser.add_argument("--check", action="store_true", help="write nothing")
    given = parser.parse_args(arguments)
    texts = {page: page.read_text() for page in given.pages}
    asking = {page: text for page, text in texts.items() if has_blocks(text)}
    if not asking:
        return 0
    status = 0
    try:
        grids = write_document(read_numbers(given.store), {}).grids
        for page, text in asking.items():
            filled = fill_blocks(text, grids)
            if filled != text:
                print(f"{page}: {'differs from' if given.check else 'written from'} {given.store}")
                status = max(status, int(given.check))
            if not given.check:
                page.write_text(filled)
    except PompError as error:
        print(f"{error}", file=sys.stderr)
        return 2
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

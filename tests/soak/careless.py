"""A command that writes a file in its place, and takes one that is there for finished: what a soak has to find."""

import sys
from pathlib import Path


def main(argv=None):
    folder = Path("out")
    folder.mkdir(exist_ok=True)
    if not (folder / "rows.csv").exists():
        with (folder / "rows.csv").open("w") as rows:
            rows.write("id,label\n")
            rows.flush()
            (folder / "notes.txt").write_text("half done\n")
            rows.write("a,1\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

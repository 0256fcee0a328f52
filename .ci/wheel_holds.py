"""Fails unless a wheel holds every tracked file of the packages that it installs: code, pages, tables and marks."""

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path


def main(wheel: Path) -> int:
    """Compare the names in a wheel with those that git tracks below the packages' folders."""
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
    packages = [name.removesuffix("*") for name in project["tool"]["setuptools"]["packages"]["find"]["include"]]
    tracked = subprocess.run(["git", "ls-files", *packages], capture_output=True, text=True, check=True).stdout.split()
    missing = sorted(set(tracked) - set(zipfile.ZipFile(wheel).namelist()))
    for name in missing:
        sys.stderr.write(f"{name} is not in {wheel.name}: pyproject.toml, [tool.setuptools.package-data]\n")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))

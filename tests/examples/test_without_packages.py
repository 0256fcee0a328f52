"""What a recipe says where the packages that it needs are not installed."""

import os
import subprocess
import sys
from pathlib import Path

from tests.sentences import assert_sentence

ROOT = Path(__file__).parents[2]


def test_training_without_its_extra_names_the_package_and_the_command(tmp_path):
    (tmp_path / "torch.py").write_text("raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')\n")
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "train.py", "--help"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(tmp_path), str(ROOT)))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert_sentence(done.stderr)

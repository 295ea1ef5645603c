"""Unit tests: `python3 -m unittest` in the project's folder. They need no sandbox and no installed package."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "guests/sdk/python"))

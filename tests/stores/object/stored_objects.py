"""What the tests of object stores share: objects that are stored, and the requests made for them."""

import random

from zarrfuse.stores.object.reader import BLOCK_BYTES

BIG = random.Random(1).randbytes(5 * BLOCK_BYTES + 12_345)

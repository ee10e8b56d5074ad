"""Makes the root of the `images` view."""

import math

from zarrfuse.stores.cache import ByteCache, default_cache_bytes
from zarrfuse.views.base import Folder
from zarrfuse.views.images.folder import images_root
from zarrfuse.views.images.nodes import Images
from zarrfuse.views.source import ViewSource


def root(source: ViewSource) -> Folder:
    """The `chunks` view with the renderings of its nodes."""
    return images_root(
        Images(
            source.chunks,
            source.cache or ByteCache(default_cache_bytes()),
            root_name=source.root_name,
            formats=source.formats,
            lasting=source.store.permanent or source.ttl_s == math.inf,
        )
    )

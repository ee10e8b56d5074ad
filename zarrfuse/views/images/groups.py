"""The renderings of one group: each of its pyramids as an OME-TIFF, `G.ome.tiff`.

Owns which levels go into it and why there is none. Used by `images.folder`. The metadata of levels
are looked at when the group is listed or the file is asked for, not before.
"""

from collections.abc import Sequence
from dataclasses import replace

from zarrfuse.formats.segments import Rendered
from zarrfuse.spec.node import ArrayNode
from zarrfuse.spec.ome import Pyramid
from zarrfuse.views.chunks.view import ChunksFolder
from zarrfuse.views.images.arrays import ArrayImages
from zarrfuse.views.images.levels import PyramidLevel, access_to
from zarrfuse.views.images.nodes import ImagesNode, Offer, Rendering, name_problem
from zarrfuse.views.images.pyramid import pyramid_file, pyramid_problem, pyramid_size
from zarrfuse.views.nodes import Loaded

ENDING = ".ome.tiff"


class GroupImages(ImagesNode):
    """A group. Of several pyramids the first is `G.ome.tiff`, the second `G.1.ome.tiff`."""

    def names(self) -> Sequence[str]:
        """See the base class."""
        return tuple(self._pyramids(wait=True))

    def rendering(self, name: str, *, wait: bool = True) -> Offer | None:
        """See the base class."""
        if not name.endswith(ENDING):
            return None
        pyramid = self._pyramids(wait).get(name)
        if pyramid is None:
            return None
        problem = name_problem(name) or pyramid.problem
        if problem is not None:
            return problem
        found = list(self._images.pyramids.levels(self.folder, pyramid, wait=wait))
        levels: list[tuple[ChunksFolder, Loaded]] = []
        for level, (folder, loaded) in zip(pyramid.levels, found, strict=True):
            if isinstance(loaded, str):
                return f"level {level.path}: {loaded}"
            if not isinstance(loaded.node, ArrayNode):
                return f"level {level.path}: {loaded.error or 'is no array'}"
            levels.append((folder, loaded))
        sources = (pyramid, *(loaded for _, loaded in levels))
        offer = self._kept(
            name,
            sources,
            wait,
            lambda: self._offer(name, lambda: self._make(name, pyramid, levels)),
        )
        if isinstance(offer, str):
            return offer
        return replace(offer, access=access_to(self.folder, self.loaded, levels, wait=wait))

    def _pyramids(self, wait: bool) -> dict[str, Pyramid]:
        if "ome" not in self._images.formats:
            return {}
        name = self._images.name_of(self.loaded)
        pyramids = self._images.pyramids.of(self.loaded, wait=wait)
        return {
            f"{name}.{number}{ENDING}" if number else f"{name}{ENDING}": pyramid
            for number, pyramid in enumerate(pyramids)
        }

    def _make(
        self, name: str, pyramid: Pyramid, found: Sequence[tuple[ChunksFolder, Loaded]]
    ) -> Offer:
        levels = [ArrayImages(self._images, folder, loaded) for folder, loaded in found]
        for level in levels:
            problem = level.no_type()
            if problem is not None:
                return f"level {level.loaded.path}: {problem}"
        picture = levels[0].picture(PyramidLevel(self.folder, pyramid, 0))
        arrays = [level.decoded for level in levels]
        problem = pyramid_problem(picture, arrays)
        if problem is not None:
            return problem
        own_name = pyramid.name or name.removesuffix(ENDING)
        mtime_ns = max(loaded.mtime_ns for loaded in (self.loaded, *(each for _, each in found)))

        def open_(wait: bool) -> Rendered:
            for level in levels:
                level.check(wait)
            ahead = not any(level.is_slow(wait) for level in levels)
            return self._rendered(pyramid_file(picture, arrays, own_name, mtime_ns, ahead=ahead))

        return Rendering(pyramid_size(picture, arrays, own_name), mtime_ns, open_)

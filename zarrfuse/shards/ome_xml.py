"""What OME-XML says of the pixels of its first image.

Source: OME schema 2016-06, Pixels. Used by `tiff_metadata`, and by `indexing` for the names of channels.
"""

from collections.abc import Iterator
from xml.etree import ElementTree


def pixels_of(xml: str) -> ElementTree.Element | None:
    """The element `Pixels` of the first image; None if there is none, or the text is no XML."""
    try:
        root = ElementTree.fromstring(xml)
    except ElementTree.ParseError:
        return None
    return next((element for element in root.iter() if _name(element) == "Pixels"), None)


def channel_names(xml: str) -> Iterator[str]:
    """The names of the channels of the first image, "" for one without."""
    pixels = pixels_of(xml)
    for element in pixels if pixels is not None else ():
        if _name(element) == "Channel":
            yield element.get("Name", "")


def _name(element: ElementTree.Element) -> str:
    """The name of an element in whatever version of the schema."""
    return element.tag.rpartition("}")[2]

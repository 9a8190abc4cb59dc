"""The README as a package index shows it: there, links into the repository and its pictures lead nowhere."""

import re
from pathlib import Path

try:
    from hatchling.metadata.plugin.interface import MetadataHookInterface
except ImportError:  # in the tests, which need only the text
    MetadataHookInterface = object


def standalone(text):
    """The text without pictures of the repository and with its links as plain text; addresses stay links."""
    text = re.sub(r"^!\[[^\]]*\]\((?!https?:)[^)]*\)\n+", "", text, flags=re.M)
    text = re.sub(r"\[([^\]]+)\]\((?!https?:|#)[^)]*\)", r"\1", text)
    text = re.sub(r"^<!-- .*? -->\n", "", text, flags=re.M)
    return text.rstrip() + "\n\nThe documents named here are in the folder `docs` of the source distribution.\n"


class CustomMetadataHook(MetadataHookInterface):
    def update(self, metadata):
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": standalone(text)}

"""What a built site must not have: links that lead nowhere, and anything that a browser would fetch from elsewhere.

python -m docs.site.check site
"""

import re
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

FETCHED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src", "video": "src"}
NOT_FETCHED = {"canonical", "next", "prev", "alternate", "edit"}  # of <link rel>
STYLE_ADDRESS = re.compile(r"""(?:url\(\s*|@import\s+)["']?(https?:|//)""")


class Page(HTMLParser):
    """The anchors of a page, its links, and what it fetches."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.links, self.fetched = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = {name: value or "" for name, value in attrs}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if "href" in found and tag == "a":
            self.links.append(found["href"])
        if (key := FETCHED.get(tag)) in found and found.get("rel") not in NOT_FETCHED:
            self.fetched.append(found[key])


def problems(site):
    """One line for each problem, sorted."""
    site = site.resolve()

    @cache
    def parsed(path):
        return Page(path.read_text())

    found = []
    for path in sorted(site.rglob("*.html")):
        page, name = parsed(path), path.relative_to(site)
        found += [f"{name}: fetches {one}" for one in page.fetched if is_elsewhere(one)]
        inside = [one for one in page.links + page.fetched if not is_elsewhere(one)]
        found += [f"{name}: {one} leads nowhere" for one in dict.fromkeys(inside) if not leads(site, path, one, parsed)]
    for path in sorted(site.rglob("*.css")):
        if STYLE_ADDRESS.search(path.read_text()):
            found.append(f"{path.relative_to(site)}: fetches from elsewhere")
    return found


def is_elsewhere(address):
    parts = urlsplit(address)
    return bool(parts.netloc) or parts.scheme in ("http", "https", "ftp")


def leads(site, path, address, parsed):
    """Whether a relative link of the page at ``path`` has a target, anchor included."""
    parts = urlsplit(address)
    if parts.scheme:  # mailto:, data:, javascript:
        return True
    place = unquote(parts.path)
    target = (site / place.lstrip("/") if place.startswith("/") else path.parent / place).resolve() if place else path
    if target.is_dir():
        target /= "index.html"
    if not target.is_file():
        return False
    anchor = unquote(parts.fragment)
    return not anchor or target.suffix != ".html" or anchor in parsed(target).anchors


if __name__ == "__main__":
    sys.exit("\n".join(problems(Path(sys.argv[1]))) or None)

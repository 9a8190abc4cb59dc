"""Hooks of mkdocs: pages that are not in docs, links out of it, and a check of the result (see mkdocs.yml)."""

import re
import sys
from pathlib import Path, PurePosixPath

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from docs.site import check, notebook_page, sources  # noqa: E402 - the path must be set first

TOP = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}  # pages that are next to docs
LINK = re.compile(r"(?<=\]\()([^)#:\s]+)")


def on_files(files, config):
    """Adds the pages next to docs, the notebooks, and every file of the tree that a page links to."""
    for name, uri in TOP.items():
        files.append(File.generated(config, uri, content=(ROOT / name).read_text()))
    for path in sorted((ROOT / "docs").glob("notebooks/*.ipynb")):
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=notebook_page.markdown(path)))
    for file in [file for file in files if file.src_uri.endswith(".html")]:  # figures that link to pages
        files.remove(file)
        text = re.sub(r'(href="[\w/-]+)\.md"', r'\1/"', file.content_string)
        files.append(File.generated(config, file.src_uri, content=text))
    pages = [(file.src_uri, file.content_string) for file in files.documentation_pages()]
    linked = {place for uri, text in pages for link in LINK.findall(text) if (place := place_of(uri, link))}
    for uri, content in sources.pages(ROOT, linked):
        files.append(File.generated(config, uri, content=content))
    return files


def on_page_markdown(markdown, page, config, files):
    uri = page.file.src_uri
    up = "../" * (len(PurePosixPath(uri).parts) - 1)

    def on_site(found):
        place = place_of(uri, found[0])
        return up + uri_of(place) if place else found[0]

    if not page.file.src_uri.endswith(("index.md", "README.md")):  # its address is one folder deeper
        markdown = re.sub(r'(<img src=")(?!https?:|data:)', r"\1../", markdown)
    return LINK.sub(on_site, markdown)


def on_post_build(config):
    if problems := check.problems(Path(config.site_dir)):
        raise PluginError("\n".join(["the site has problems:", *problems]))


def place_of(uri, link):
    """The place in the tree of a link that has another address on the site, if it is one."""
    beside = uri in TOP.values()
    place = ((ROOT if beside else ROOT / "docs" / PurePosixPath(uri).parent) / link).resolve()
    if uri.startswith("source/") or not place.is_relative_to(ROOT) or not place.exists():
        return None
    inside = place.relative_to(ROOT).as_posix()
    moved = beside or not inside.startswith("docs/") or inside.endswith(".ipynb")
    return inside if moved else None


def uri_of(place):
    """The address on the site of a file or folder of the tree."""
    if place == "README.md":
        return "index.md"
    if place.endswith(".ipynb"):
        return place.removeprefix("docs/").removesuffix(".ipynb") + ".md"
    if place.startswith("docs/"):
        return place.removeprefix("docs/")
    return TOP.get(place) or sources.uri_of(ROOT, place)

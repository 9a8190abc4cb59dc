"""Files of the tree that a page links to, on the site: code and lists of folders as pages, data as it is."""

NOT_SHOWN = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/")
HIDDEN = "---\nsearch:\n  exclude: true\n---\n"


def pages(root, places):
    """Address and contents of every file that is to be added."""
    places = {place for place in places if not place.startswith(NOT_SHOWN)}
    folders = {place for place in places if (root / place).is_dir()}
    places |= {path.relative_to(root).as_posix() for place in folders for path in (root / place).glob("*.json")}
    for place in sorted(places):
        yield uri_of(root, place), contents(root, place)


def uri_of(root, place):
    if (root / place).is_dir():
        return f"source/{place}/index.md"
    return f"source/{place}" + ".md" * place.endswith((".py", ".md"))


def contents(root, place):
    path = root / place
    if path.is_dir():
        listed = "".join(f"- [{one.name}]({one.name})\n" for one in sorted(path.glob("*.json")))
        return f"{HIDDEN}# {place}\n\n{listed}"
    if path.suffix == ".py":
        return f"{HIDDEN}# {place}\n\n````python\n{path.read_text()}````\n"
    return path.read_bytes()

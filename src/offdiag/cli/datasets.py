"""`offdiag datasets`: the public data sets that can be read by name."""

from __future__ import annotations

import os
from typing import Annotated, Any

from typer import Argument, Option

from offdiag.cli import console
from offdiag.cli.commands import Json
from offdiag.errors import OffdiagError

EXAMPLES = ("offdiag datasets", "offdiag datasets ml-1m --download")


def datasets(
    name: Annotated[str | None, Argument(metavar="NAME", help="One data set; without it, all.")] = None,
    download: Annotated[bool, Option("--download", help="Download it now, and check it.")] = False,
    folder: Annotated[str | None, Option(help="Folder of its files. Default: the cache.")] = None,
    json: Json = False,
) -> None:
    """List the public data sets that can be read by name.

    For one of them: address, licence, size, how to load.
    """
    import offdiag as od

    if name is None:
        if download or folder is not None:
            raise OffdiagError("--download and --folder go with one data set; name it, e.g. offdiag datasets ml-1m")
        known = [describe(one) for one in od.datasets.names()]
        if json:
            console.show_json(known)
            return
        console.show_table(["name", "what", "here"], [[d["name"], d["about"], d["here"]] for d in known])
        console.say("\noffdiag datasets NAME shows more; --download fetches it. Mind the licence of each.")
        return
    about = describe(name, folder)
    if download:
        console.note(f"licence: {about['licence']}")
        with console.working() as work:
            work.begin(f"downloading {name}")
            od.datasets.download(name, folder, progress=work)
        about = describe(name, folder)
    if json:
        console.show_json(about)
        return
    console.show_pairs(
        {
            "name": about["name"],
            "what": about["about"],
            "licence": about["licence"],
            "address": " ".join(about["addresses"]),
            "checksum": " ".join(checksum or "none published" for checksum in about["checksums"]),
            "on this machine": f"{about['here']}, {about['folder']}",
            "in Python": about["load"],
        }
    )


def describe(name: str, folder: str | None = None) -> dict[str, Any]:
    """Source and licence of a public data set, and whether it is on this machine."""
    import offdiag as od

    known = od.datasets.describe(name)
    place = folder if folder is not None else str(od.datasets.cache_folder() / name)
    argument = "" if folder is None else f", folder={folder!r}"
    return {
        "name": known.name,
        "about": known.about,
        "licence": known.licence,
        "addresses": list(known.addresses),
        "checksums": list(known.checksums),
        "folder": place,
        "here": "yes" if os.path.exists(place) else "no",
        "load": f"od.datasets.load({name!r}{argument})",
    }

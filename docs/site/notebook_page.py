"""A notebook as a page of the site."""

import json

SHOWN = ("image/svg+xml", "text/html", "text/plain")  # the first that an output has


def markdown(path):
    cells = json.loads(path.read_text())["cells"]
    about = f"\n\n*This page is the notebook `{path.name}`, with what its cells printed when the tests ran it.*\n"
    head, *rest = [cell_markdown(cell) for cell in cells]
    return "\n\n".join([head + about, *rest]) + "\n"


def cell_markdown(cell):
    text = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return text
    return "\n\n".join([f"```python\n{text}\n```", *map(output_markdown, cell["outputs"])])


def output_markdown(output):
    if output["output_type"] == "stream":
        return f"```text\n{''.join(output['text'])}```"
    kind = next(kind for kind in SHOWN if kind in output["data"])
    text = "".join(output["data"][kind])
    if kind == "text/plain":
        return f"```text\n{text}\n```"
    lines = (line for line in text.splitlines() if line.strip())  # an empty line would end the HTML
    return '<div class="notebook-output">\n' + "\n".join(lines) + "\n</div>"

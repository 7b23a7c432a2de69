"""Runs an example and writes it as a page: its words, its code, what it prints, and its picture.

    python render.py publish_a_series.py page.html
"""

import contextlib
import html
import io
import pathlib
import re
import sys

STYLE = (
    "body{max-width:62rem;margin:2rem auto;padding:0 1rem;font:16px/1.5 sans-serif}p{max-width:46rem}svg{max-width:46rem}"
    "pre{background:#f4f4f4;padding:.7rem;overflow:auto;font-size:13px}"
    "pre.out{background:#fff;border-left:3px solid #4477aa;white-space:pre-wrap}"
)


def cells(text):
    """The cells of a script: whether each is words or code, and its contents."""
    for part in re.split(r"^# %%", text, flags=re.M)[1:]:
        head, _, body = part.partition("\n")
        if "[markdown]" in head:
            yield True, re.sub(r"^# ?", "", body, flags=re.M).strip()
        else:
            yield False, body.strip()


def words(text):
    """Headings, paragraphs and code words: as much of Markdown as the examples use."""
    for paragraph in re.split(r"\n\s*\n", text):
        level = len(paragraph) - len(paragraph.lstrip("#"))
        tag = f"h{level}" if level else "p"
        body = html.escape(paragraph.lstrip("# "))
        body = re.sub(r"`([^`]+)`", r"<code>\1</code>", body)
        emphasized = re.sub(r"[*]([^*]+)[*]", r"<em>\1</em>", body)
        yield f"<{tag}>{emphasized}</{tag}>"


def render(path):
    """The page of an example, which is run for it."""
    sys.path.insert(0, str(path.parent))
    names = {"__name__": "__main__"}
    page = []
    for is_words, text in cells(path.read_text(encoding="utf-8")):
        if is_words:
            page.extend(words(text))
            continue
        page.append(f"<pre>{html.escape(text)}</pre>")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(text, str(path), "exec"), names)
        if printed.getvalue():
            page.append(f'<pre class="out">{html.escape(printed.getvalue())}</pre>')
    page.append(names.get("picture", ""))
    title = path.stem.replace("_", " ")
    return f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{STYLE}</style>{"".join(page)}</html>'


if __name__ == "__main__":
    pathlib.Path(sys.argv[2]).write_text(render(pathlib.Path(sys.argv[1]).resolve()), encoding="utf-8")

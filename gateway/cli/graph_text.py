"""A graph of the mesh as DOT (Graphviz) and as Mermaid. What peers have sent stands in labels: quoted, always."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gateway.cli.console import printable
from gateway.inspect.live.topology import Arrow, Graph, Node


class GraphLook(NamedTuple):
    """The look of a kind of node: Graphviz's shape, Mermaid's brackets, a fill."""

    shape: str
    left: str
    right: str
    fill: str


LOOKS = {
    "peer": GraphLook("box", "(", ")", "#fdf6e3"),
    "listener": GraphLook("box", "[", "]", "#e8f1fa"),
    "edge": GraphLook("box", "[[", "]]", "#cfe3f7"),
    "topic": GraphLook("cylinder", "[(", ")]", "#eeeeee"),
    "lane": GraphLook("component", "{{", "}}", "#dff3e4"),
    "rules": GraphLook("component", "{{", "}}", "#f3e4f7"),
}
ESCAPES = str.maketrans({"#": "#35;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "&": "#amp;", "`": "#96;"})


def as_dot(graph: Graph, name: str) -> Iterator[str]:
    yield f"digraph {_quoted(name)} {{"
    yield "  rankdir=LR"
    yield '  node [fontname="sans-serif" fontsize=10 style="filled,rounded"]'
    for edge in _edges(graph):
        yield f"  subgraph {_quoted(f'cluster {edge}')} {{"
        yield f"    label={_quoted(edge)} color=gray"
        yield from (f"    {_dot_node(node)}" for node in graph.nodes if node.within == edge)
        yield "  }"
    yield from (f"  {_dot_node(node)}" for node in graph.nodes if not node.within)
    yield from (f"  {_dot_arrow(arrow)}" for arrow in graph.arrows)
    yield "}"


def _dot_node(node: Node) -> str:
    look = LOOKS[node.kind]
    dashed = "" if node.up else ' style="dashed" color=red'
    return (
        f"{_quoted(node.id)} [shape={look.shape} fillcolor={_quoted(look.fill)} label={_quoted(*node.lines)}{dashed}]"
    )


def _dot_arrow(arrow: Arrow) -> str:
    both = " [dir=both]" if arrow.both else ""
    return f"{_quoted(arrow.start)} -> {_quoted(arrow.end)}{both}"


def _quoted(*lines: str) -> str:
    r"""
    >>> print(_quoted('a "b"', "c\\"))
    "a \"b\"\nc\\"
    """
    return '"' + r"\n".join(printable(line).replace("\\", "\\\\").replace('"', '\\"') for line in lines) + '"'


def as_mermaid(graph: Graph) -> Iterator[str]:
    ids = {node.id: f"n{number}" for number, node in enumerate(graph.nodes)}
    yield "flowchart LR"
    for number, edge in enumerate(_edges(graph)):
        yield f"  subgraph e{number}[{_label(edge)}]"
        yield from (f"    {ids[node.id]}{_mermaid_node(node)}" for node in graph.nodes if node.within == edge)
        yield "  end"
    yield from (f"  {ids[node.id]}{_mermaid_node(node)}" for node in graph.nodes if not node.within)
    yield from (f"  {ids[arrow.start]} {'<-->' if arrow.both else '-->'} {ids[arrow.end]}" for arrow in graph.arrows)
    for kind, look in LOOKS.items():
        if of_kind := [ids[node.id] for node in graph.nodes if node.kind == kind]:
            yield f"  classDef {kind} fill:{look.fill},stroke:#888,color:#222"
            yield f"  class {','.join(of_kind)} {kind}"
    if down := [ids[node.id] for node in graph.nodes if not node.up]:
        yield "  classDef down stroke:#c00,stroke-dasharray:4"
        yield f"  class {','.join(down)} down"


def _mermaid_node(node: Node) -> str:
    look = LOOKS[node.kind]
    return f"{look.left}{_label(*node.lines)}{look.right}"


def _label(*lines: str) -> str:
    """
    >>> print(_label('a "b"', "temp.>"))
    "a #quot;b#quot;<br>temp.#gt;"
    """
    return '"' + "<br>".join(printable(line).translate(ESCAPES) for line in lines) + '"'


def _edges(graph: Graph) -> list[str]:
    return list(dict.fromkeys(node.within for node in graph.nodes if node.within))

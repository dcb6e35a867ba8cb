"""The metrics of a zone, as Prometheus reads them."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tests.builders.tree import Node

Labelled = dict[tuple[str, ...], float]


def text_of(node: Node, user: str = "monitor") -> str:
    answer = node.client(user).get("/metrics")
    assert answer.status == 200, answer.body
    return answer.body.decode()


def samples_of(node: Node) -> list[Sample]:
    """Every sample of one scrape."""
    return [sample for family in text_string_to_metric_families(text_of(node)) for sample in family.samples]


def value(node: Node, name: str, **labels: str) -> float:
    """The sum of the samples of that name with these labels; 0 where there is none."""
    return sum(s.value for s in samples_of(node) if s.name == name and labels.items() <= s.labels.items())


def labelled(node: Node, name: str) -> Labelled:
    """The samples of that name by the values of their labels, in order of the labels' names."""
    found = [sample for sample in samples_of(node) if sample.name == name]
    return {tuple(s.labels[key] for key in sorted(s.labels)): s.value for s in found}

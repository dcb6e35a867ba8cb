"""Filter for aggregates that accept the image of the request."""

from __future__ import annotations

from typing import Self

from zonesched.conf import Conf
from zonesched.filters.aggregate_metadata import values_by_key
from zonesched.filters.shared_facts_filter import Question, SharedFactsFilter, any_host
from zonesched.model.host_row import SharedFacts
from zonesched.model.request_spec import RequestSpec


class AggregateImagePropertiesIsolation(SharedFactsFilter):
    """Passes hosts none of whose aggregates names other values of a property than the image has.

    Reads: the metadata of a host's aggregates, and the image's properties of the same names: a property
    that the image has and the metadata names must be one of the metadata's values (several with commas, those
    of all aggregates together). A property that only one of the two has removes no host. With the option
    `aggregate_image_properties_isolation_namespace`, only metadata that starts with it and
    `aggregate_image_properties_isolation_separator` is read; the image's property has the same full name.

    Example: hosts of an aggregate with `os_distro = windows` take no image with `os_distro = debian`. With
    the namespace `image` and the separator `.`, only keys such as `image.os_distro` do that.
    """

    code = "image_not_of_aggregate"
    RUN_ON_REBUILD = True

    def __init__(self, namespace: str = "", separator: str = ".") -> None:
        self._prefix = namespace + separator if namespace else ""

    @classmethod
    def from_conf(cls, conf: Conf) -> Self:
        return cls(
            conf.aggregate_image_properties_isolation_namespace,
            conf.aggregate_image_properties_isolation_separator,
        )

    def question(self, spec: RequestSpec) -> Question:
        properties = {
            key: value
            for key, value in spec.image.properties.items()
            if value and key.startswith(self._prefix)
        }

        def takes(facts: SharedFacts) -> bool:
            wanted = values_by_key(facts.aggregates)
            return all(value in wanted[key] for key, value in properties.items() if key in wanted)

        return takes if properties else any_host

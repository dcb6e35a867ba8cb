"""The options of how a zone chooses among its own hosts."""

from __future__ import annotations

from oslo_config import cfg

SCHEDULER = [
    cfg.StrOpt(
        "scheduler_driver",
        default="FilterScheduler",
        help="FilterScheduler, CachingScheduler, BaseScheduler, LeastCostScheduler, ChanceScheduler,"
        " AvailabilityZoneScheduler, SimpleScheduler, FakeScheduler, or the entry point or dotted path of a"
        " subclass of BaseScheduler.",
    ),
    cfg.FloatOpt(
        "host_refresh_interval",
        default=60.0,
        min=0.0,
        help="Seconds between two readings of the hosts by CachingScheduler.",
    ),
    cfg.IntOpt(
        "host_subset_size",
        deprecated_name="scheduler_host_subset_size",
        default=1,
        min=1,
        max=10_000,
        help="FilterScheduler takes one of this many best hosts at random, for each instance anew.",
    ),
    cfg.BoolOpt(
        "shuffle_best_same_weighed_hosts",
        default=True,
        help="True: hosts of equal weight are taken in a random order, another one for each request. False:"
        " local hosts of equal weight are taken in one order for all requests, so concurrent requests want"
        " the same host; between zones the order stays random.",
    ),
    cfg.MultiStrOpt(
        "available_filters",
        default=["all_filters"],
        deprecated_name="scheduler_available_filters",
        help="A filter that may be enabled and that requests may add: a dotted path, an entry point of"
        " zonesched.filters, the name of a built-in one, or all_filters (standard_filters): all of these.",
    ),
    cfg.ListOpt(
        "enabled_filters",
        default=[
            "ComputeFilter",
            "AvailabilityZoneFilter",
            "ComputeCapabilitiesFilter",
            "ImagePropertiesFilter",
            "CoreFilter",
            "RamFilter",
            "DiskFilter",
            "ResourceClassFilter",
            "TraitsFilter",
        ],
        deprecated_opts=[
            cfg.DeprecatedOpt(name)
            for name in ("default_host_filters", "default_host_filter", "scheduler_default_filters")
        ],
        help="Filters that every request passes, in order: names of available ones, dotted paths or entry"
        " points.",
    ),
    cfg.StrOpt(
        "aggregate_image_properties_isolation_namespace",
        default="",
        help="AggregateImagePropertiesIsolation reads only metadata that starts with this and the separator.",
    ),
    cfg.StrOpt(
        "aggregate_image_properties_isolation_separator",
        default=".",
        help="What stands between that namespace and the rest of the key.",
    ),
    cfg.StrOpt(
        "image_properties_default_architecture",
        default="",
        help="ImagePropertiesFilter: the architecture of images that name none, such as x86_64; empty: such"
        " images run on any.",
    ),
    cfg.ListOpt(
        "isolated_images",
        deprecated_name="image_isolated",
        default=[],
        help="Ids of images that IsolatedHostsFilter keeps to isolated hosts.",
    ),
    cfg.ListOpt(
        "isolated_hosts",
        deprecated_name="host_isolated",
        default=[],
        help="Names of hosts that IsolatedHostsFilter keeps for those images.",
    ),
    cfg.BoolOpt(
        "restrict_isolated_hosts_to_isolated_images",
        default=True,
        help="Whether isolated hosts take isolated images only.",
    ),
    cfg.IntOpt(
        "max_io_ops_per_host",
        default=8,
        min=0,
        help="IoOpsFilter: hosts that build as many instances as this take no more.",
    ),
    cfg.IntOpt(
        "max_instances_per_host",
        default=50,
        min=0,
        help="NumInstancesFilter: hosts with as many instances as this take no more.",
    ),
    cfg.ListOpt(
        "weight_classes",
        deprecated_name="scheduler_weight_classes",
        default=["all_weighers"],
        help="Weighers of FilterScheduler: names, entry points or dotted paths; all_weighers are the built-in"
        " ones.",
    ),
    cfg.FloatOpt("ram_weight_multiplier", default=1.0, help="Factor of RAMWeigher; negative stacks."),
    cfg.FloatOpt("cpu_weight_multiplier", default=1.0, help="Factor of CPUWeigher; negative stacks."),
    cfg.FloatOpt("disk_weight_multiplier", default=1.0, help="Factor of DiskWeigher; negative stacks."),
    cfg.FloatOpt(
        "io_ops_weight_multiplier",
        default=-1.0,
        help="Factor of IoOpsWeigher; negative prefers hosts with fewer builds under way.",
    ),
    cfg.FloatOpt(
        "num_instances_weight_multiplier",
        default=0.0,
        help="Factor of NumInstancesWeigher; negative prefers hosts with fewer instances.",
    ),
    cfg.FloatOpt(
        "build_failure_weight_multiplier",
        default=1_000_000.0,
        help="Factor of BuildFailureWeigher, subtracted; large, so that hosts with failed builds come last.",
    ),
    cfg.FloatOpt(
        "hypervisor_version_weight_multiplier",
        default=1.0,
        help="Factor of HypervisorVersionWeigher; negative prefers older ones.",
    ),
    cfg.FloatOpt(
        "soft_affinity_weight_multiplier",
        default=1.0,
        min=0.0,
        help="Factor of ServerGroupSoftAffinityWeigher.",
    ),
    cfg.FloatOpt(
        "soft_anti_affinity_weight_multiplier",
        default=1.0,
        min=0.0,
        help="Factor of ServerGroupSoftAntiAffinityWeigher.",
    ),
    cfg.FloatOpt(
        "cross_zone_weight_multiplier",
        default=0.0,
        help="Factor of CrossZoneWeigher; positive prefers this zone's local hosts to hosts in child zones.",
    ),
    cfg.FloatOpt(
        "image_props_weight_multiplier",
        default=0.0,
        help="Factor of ImagePropertiesWeigher; positive prefers hosts with instances of like images.",
    ),
    cfg.ListOpt(
        "image_props_weight_setting",
        default=[],
        help="What each image property counts for ImagePropertiesWeigher, as name=ratio; empty: 1 each.",
    ),
    cfg.FloatOpt("metrics_weight_multiplier", default=1.0, help="Factor of MetricsWeigher."),
    cfg.ListOpt(
        "metrics_weight_setting",
        default=[],
        help="What each metric of a host counts for MetricsWeigher, as name=ratio. MetricsFilter passes hosts"
        " that report them all.",
    ),
    cfg.BoolOpt(
        "metrics_required",
        default=True,
        help="True: a host without one of these metrics cannot be weighed, and the request is refused."
        " False: metrics_weight_of_unavailable is its value.",
    ),
    cfg.FloatOpt(
        "metrics_weight_of_unavailable",
        default=-10_000.0,
        help="What MetricsWeigher says of a host without one of its metrics, unless they are required.",
    ),
    cfg.ListOpt(
        "least_cost_functions",
        default=["noop_cost=1.0"],
        help="Cost functions of LeastCostScheduler as name=number: noop_cost, fill_first_cost,"
        " spread_first_cost, owner_on_host_cost, plain_on_special_cost, or dotted paths.",
    ),
    cfg.StrOpt(
        "special_host_capability",
        default="special",
        help="Capability that marks a host as special, for plain_on_special_cost.",
    ),
]

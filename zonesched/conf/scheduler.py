"""Options of the scheduler, its filters and its weighers."""

from __future__ import annotations

from oslo_config import cfg

from zonesched.conf.bounds import LONGEST_S, MOST

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
        max=LONGEST_S,
        help="Seconds between two readings of the hosts by CachingScheduler.",
    ),
    cfg.IntOpt(
        "host_subset_size",
        deprecated_name="scheduler_host_subset_size",
        default=1,
        min=1,
        max=10_000,
        help="FilterScheduler picks one of this many best hosts at random for each instance.",
    ),
    cfg.BoolOpt(
        "shuffle_best_same_weighed_hosts",
        default=True,
        help="True: each request takes hosts of equal weight in a random order of its own. False: all"
        " requests take local hosts of equal weight in one order, so concurrent requests compete for the same"
        " host; the order between zones stays random.",
    ),
    cfg.MultiStrOpt(
        "available_filters",
        default=["all_filters"],
        deprecated_name="scheduler_available_filters",
        help="A filter that may be enabled and that requests may add: a dotted path, an entry point of"
        " zonesched.filters, or the name of a built-in filter. all_filters (standard_filters): all built-in"
        " filters.",
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
        help="Filters that every request passes, in order: names of available filters, dotted paths or entry"
        " points.",
    ),
    cfg.StrOpt(
        "aggregate_image_properties_isolation_namespace",
        default="",
        help="AggregateImagePropertiesIsolation reads only metadata keys that start with this namespace and"
        " the separator; empty: all keys.",
    ),
    cfg.StrOpt(
        "aggregate_image_properties_isolation_separator",
        default=".",
        help="Separator between that namespace and the rest of the key.",
    ),
    cfg.StrOpt(
        "image_properties_default_architecture",
        default="",
        help="ImagePropertiesFilter: architecture of images that name none, such as x86_64. Empty: such"
        " images run on any architecture.",
    ),
    cfg.ListOpt(
        "isolated_images",
        deprecated_name="image_isolated",
        default=[],
        help="Ids of images that IsolatedHostsFilter places only on isolated hosts.",
    ),
    cfg.ListOpt(
        "isolated_hosts",
        deprecated_name="host_isolated",
        default=[],
        help="Names of hosts that IsolatedHostsFilter reserves for isolated images.",
    ),
    cfg.BoolOpt(
        "restrict_isolated_hosts_to_isolated_images",
        default=True,
        help="True: isolated hosts take only isolated images.",
    ),
    cfg.IntOpt(
        "max_io_ops_per_host",
        default=8,
        min=0,
        max=MOST,
        help="IoOpsFilter: a host that builds this many instances takes no more.",
    ),
    cfg.IntOpt(
        "max_instances_per_host",
        default=50,
        min=0,
        max=MOST,
        help="NumInstancesFilter: a host with this many instances takes no more.",
    ),
    cfg.ListOpt(
        "weight_classes",
        deprecated_name="scheduler_weight_classes",
        default=["all_weighers"],
        help="Weighers of FilterScheduler: names, entry points or dotted paths. all_weighers: all built-in"
        " weighers.",
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
        help="Factor of BuildFailureWeigher, subtracted; the default puts hosts with failed builds last.",
    ),
    cfg.FloatOpt(
        "hypervisor_version_weight_multiplier",
        default=1.0,
        help="Factor of HypervisorVersionWeigher; negative prefers older hypervisors.",
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
        help="Factor of ImagePropertiesWeigher; positive prefers hosts with instances of similar images.",
    ),
    cfg.ListOpt(
        "image_props_weight_setting",
        default=[],
        help="Ratio of each image property in ImagePropertiesWeigher, as name=ratio; empty: 1 each.",
    ),
    cfg.FloatOpt("metrics_weight_multiplier", default=1.0, help="Factor of MetricsWeigher."),
    cfg.ListOpt(
        "metrics_weight_setting",
        default=[],
        help="Ratio of each host metric in MetricsWeigher, as name=ratio. MetricsFilter passes only hosts"
        " that report all of these metrics.",
    ),
    cfg.BoolOpt(
        "metrics_required",
        default=True,
        help="True: a host that lacks one of these metrics cannot be weighed, and the request is refused."
        " False: MetricsWeigher weighs such a host as metrics_weight_of_unavailable.",
    ),
    cfg.FloatOpt(
        "metrics_weight_of_unavailable",
        default=-10_000.0,
        help="Weight that MetricsWeigher gives a host that lacks one of its metrics, if metrics_required is"
        " false.",
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

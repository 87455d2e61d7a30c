//! The command as a person uses it: the built program, in a home and a project of its own.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod suite {
    pub(crate) mod approval;
    pub(crate) mod cli_config;
    pub(crate) mod cli_doctor;
    pub(crate) mod cli_explain;
    pub(crate) mod cli_grants;
    pub(crate) mod cli_help;
    mod cli_hosts;
    mod cli_options;
    pub(crate) mod cli_records;
    pub(crate) mod cli_sandboxes;
    #[cfg(all(feature = "docker", target_os = "linux"))]
    pub(crate) mod docker;
    #[cfg(all(feature = "docker", target_os = "linux"))]
    mod docker_network;
    #[cfg(all(feature = "docker", target_os = "linux"))]
    pub(crate) mod docker_sandboxes;
    #[cfg(all(feature = "docker", feature = "mcp", target_os = "linux"))]
    pub(crate) mod docker_session;
    #[cfg(all(feature = "docker", target_os = "linux"))]
    mod docker_tools;
    #[cfg(all(feature = "mcp", target_os = "linux"))]
    mod doors;
    pub(crate) mod fence_attacks_kernel;
    pub(crate) mod fence_attacks_late;
    pub(crate) mod fence_attacks_paths;
    pub(crate) mod fence_attacks_processes;
    pub(crate) mod fence_attacks_races;
    pub(crate) mod fence_attacks_resources;
    pub(crate) mod fence_attacks_sockets;
    pub(crate) mod fence_attacks_swaps;
    pub(crate) mod fence_early;
    pub(crate) mod fence_everyday;
    pub(crate) mod fence_faults;
    #[cfg(all(feature = "mcp", target_os = "linux"))]
    pub(crate) mod fence_git;
    pub(crate) mod fence_grants;
    mod fence_host_network;
    pub(crate) mod fence_inspected;
    mod fence_inspected_attacks;
    pub(crate) mod fence_invisible;
    mod fence_network;
    mod fence_network_attacks;
    mod fence_network_faults;
    mod fence_network_packages;
    pub(crate) mod fence_network_support;
    mod fence_network_tools;
    pub(crate) mod fence_network_tools_support;
    mod fence_network_udp;
    pub(crate) mod fence_nursery;
    #[cfg(all(feature = "mcp", target_os = "linux"))]
    pub(crate) mod fence_oracle;
    pub(crate) mod fence_own;
    pub(crate) mod fence_settings;
    pub(crate) mod fence_signals;
    pub(crate) mod fence_support;
    pub(crate) mod fence_tripwire;
    pub(crate) mod fence_verdicts;
    pub(crate) mod gate;
    pub(crate) mod gate_fenced;
    pub(crate) mod gate_lists;
    pub(crate) mod gate_reader;
    pub(crate) mod interactive;
    #[cfg(target_os = "linux")]
    mod kits;
    pub(crate) mod launchers;
    #[cfg(feature = "mcp")]
    pub(crate) mod mcp;
    #[cfg(feature = "mcp")]
    pub(crate) mod mcp_http;
    #[cfg(feature = "mcp")]
    mod mcp_settings;
    pub(crate) mod provider_options;
    pub(crate) mod session;
    mod session_keys;
    pub(crate) mod support;
    mod terminal;
}

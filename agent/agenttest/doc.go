// Package agenttest starts the agent's real server, with its services, interceptors and watchers, over a fake host: a model of a
// node's disks that tests fill, plug, format, mount and break. It is for tests of whoever talks to agents. The fake host passes the
// same conformance suite as a real node (package conformance).
package agenttest

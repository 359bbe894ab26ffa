// Package agentv1 is the contract between the agent and the controller: what the agent of a node shows, and what it can be asked to
// do. All of it but this file is generated from the .proto files beside it; it must not know anything of either side.
package agentv1

// Package randomtest drives Clusters through random events: disks vanish, return, move and swap slots, those with groups move to other nodes and back,
// and become theirs by approval, reports fail, agents and the controller die, nodes leave and return or are declared lost, disks are given up, volumes,
// snapshots and copies come and go, specs change, two controllers work at a time for a moment. In worlds of their own the API server goes back to a backup. After each event it checks that no volume was lost, that no disk with foreign data was changed, that
// no disk that was given up is taken again, and that nothing says it is ready that is not; once the faults are over, that all is well again.
//
// Everything but the API server, the kernel and LVM is the real code: the agents with their server, engine and watches over the model host
// of package agenttest, the controller's pool of agents, its reconcilers, and the CSI controller service. They run in a bubble of package
// synctest: time is that of the bubble, and an event happens once everything that the one before caused has come to rest. A seed
// tells nearly the whole story: what goroutines do at one moment is up to the scheduler.
//
// `make unit` plays the lists of events that are kept, and a few worlds. `make random` plays 10,000 events. `make test` plays as many, in other worlds from commit to
// commit. A failure prints its seed and the events that are left once those without a part in it are left out, as they are written into the table of
// kept lists: scheduling is not deterministic, so one seed can end in two ways, and the list of events is what is kept.
//
// The stand-in for the API server knows what matters of one: versions and conflicts, generations, finalizers, the status subresource,
// preconditions of deletions, field indexes, and caches that are behind. It does not enforce schemas, CEL rules and admission policies:
// the events ask for nothing that those would refuse.
package randomtest

// Package randomtest drives Clusters through random events: disks vanish, return, move and swap slots, reports fail, agents and the
// controller die, nodes leave and return, volumes come and go, specs change. After each event it checks that no volume was lost, that no
// disk with foreign data was changed, and that nothing says it is ready that is not; once the faults are over, that all is well again.
//
// Everything but the API server, the kernel and LVM is the real code: the agents with their server, engine and watches over the model host
// of package agenttest, the controller's pool of agents, its reconcilers, and the CSI controller service. They run in a bubble of package
// synctest: time is that of the bubble, and an event happens once everything that the one before caused has come to rest. A seed
// tells nearly the whole story: what goroutines do at one moment is up to the scheduler.
//
// Only `make random` runs these tests: they take minutes, and their scheduling is not deterministic yet. It plays 10,000 events. A failure prints its seed and the events that are left once those without a part in it are left out.
//
// The stand-in for the API server knows what matters of one: versions and conflicts, generations, finalizers, the status subresource,
// preconditions of deletions, field indexes, and caches that are behind. It does not enforce schemas, CEL rules and admission policies:
// the events ask for nothing that those would refuse.
package randomtest

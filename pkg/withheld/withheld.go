// Package withheld is the table of a rule that stands in two places: what is done to a volume group and its thin pool while something is wrong with
// them. The controller asks for all that the agent does, and for nothing that only a person can make it do (controller/internal/decide/lvm); the agent
// refuses it whatever it is asked for (agent/internal/plan, its packages repair and volume). When a device leaves a group is in package emptying. The tests
// of both go through the table; nothing else imports it.
package withheld

// Move is what is going on in the group already.
type Move int

// Moves.
const (
	// Still is a group in which nothing is moved.
	Still Move = iota
	// Agents is a move of extents that the agent ends.
	Agents
	// Persons is one that the agent leaves alone.
	Persons
)

// Pool is the thin pool of the group.
type Pool int

// Pools.
const (
	// None is a pool that is still to be made.
	None Pool = iota
	// Damaged is a pool whose metadata is damaged.
	Damaged
	// Unknown is a pool that is not active, of which the agent has not found any damage. A repair of it was planned before.
	Unknown
	// Well is an active pool in order. A repair of it was planned before.
	Well
)

// Verdict is what becomes of an action.
type Verdict int

// Verdicts.
const (
	// Never means that the controller does not ask for it, and the agent refuses it or does nothing.
	Never Verdict = iota
	// Later means that the controller asks for it, and the agent refuses it until something ends that needs no other plan: its own move, or the
	// pods of a plan that says so.
	Later
	// Done means that the controller asks for it, and the agent does it.
	Done
)

// Case is a group, and what becomes of its growth by a clean disk, of making its pool or making that larger, and of repairing it.
type Case struct {
	Name string
	Move Move
	Pool Pool
	// Missing is true when a device of the group is missing, Stale when the device of the pool leads to a disk that dropped off, Open when a volume
	// in the pool is in use.
	Missing, Stale, Open bool

	Extend, Make, Repair Verdict
}

// Cases is the table.
var Cases = []Case{
	{Name: "in order, without its pool", Extend: Done, Make: Done},
	{Name: "without its pool, the agent moves extents", Move: Agents, Extend: Later, Make: Later},
	{Name: "without its pool, a person moves extents", Move: Persons},
	{Name: "without its pool, a device is missing", Missing: true},
	{Name: "without its pool, a device is missing and a person moves extents", Missing: true, Move: Persons},
	{Name: "the pool is well", Pool: Well, Extend: Done, Make: Done},
	{Name: "damaged", Pool: Damaged, Extend: Done, Repair: Done},
	{Name: "damaged, a volume is in use", Pool: Damaged, Open: true, Extend: Done, Repair: Later},
	{Name: "damaged, the agent moves extents", Pool: Damaged, Move: Agents, Extend: Later, Repair: Later},
	{Name: "damaged, a person moves extents", Pool: Damaged, Move: Persons},
	{Name: "damaged, a device is missing", Pool: Damaged, Missing: true},
	{Name: "damaged, over a disk that dropped off", Pool: Damaged, Stale: true, Extend: Done, Repair: Later},
	{Name: "perhaps damaged", Pool: Unknown, Extend: Done, Repair: Later},
	{Name: "perhaps damaged, a device is missing", Pool: Unknown, Missing: true},
	{Name: "perhaps damaged, a person moves extents", Pool: Unknown, Move: Persons},
}

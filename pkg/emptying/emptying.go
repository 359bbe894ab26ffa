// Package emptying is the table of a rule that stands in two places: when a device leaves a volume group, and what lies on it is moved before.
// The controller asks for nothing that the agent would refuse (controller/internal/decide/lvm/retire), and the agent refuses it whatever it is
// asked for (agent/internal/plan/move and plan.ReduceGroup). The tests of both go through the table; nothing else imports it.
package emptying

// Extents of the device that is given up and of each other one; a device is as large. Used is what lies on a device that is not empty.
const (
	Size = 100
	Used = 60
)

// Move is what is going on in the group already.
type Move int

// Moves.
const (
	// Still is a group in which nothing is moved.
	Still Move = iota
	// Own is a move off the device that is given up, of all that lies on it. The agent ends it.
	Own
	// Another is a move off another device. The agent ends it.
	Another
	// Persons is one that the agent leaves alone, off the device that is given up.
	Persons
)

// Verdict is what comes next.
type Verdict int

// Verdicts.
const (
	// Stays means that neither is anything moved nor the device taken out.
	Stays Verdict = iota
	// Moves means that extents are moved off the device.
	Moves
	// Leaves means that the device is taken out of the group.
	Leaves
)

// Case is a group of the device that is given up and two others, and what comes next.
type Case struct {
	Name string
	// Empty is true when nothing lies on the device, Alone when it is the only one of the group.
	Empty, Alone bool
	// Full is true when the others have no free extent.
	Full bool
	// Missing is true when another device of the group is missing, Stale when a volume leads to a disk that dropped off, Pool when the group
	// has a thin pool.
	Missing, Stale, Pool bool
	Move                 Move
	Want                 Verdict
}

// Cases is the table.
var Cases = []Case{
	{Name: "it holds extents", Want: Moves},
	{Name: "it is empty", Empty: true, Want: Leaves},
	{Name: "no room", Full: true},
	{Name: "empty, and no room is needed", Empty: true, Full: true, Want: Leaves},
	{Name: "the only one", Alone: true},
	{Name: "the only one, and empty", Alone: true, Empty: true},
	{Name: "another is missing", Missing: true},
	{Name: "empty, and another is missing", Missing: true, Empty: true},
	{Name: "a stale volume", Stale: true},
	{Name: "empty, and a stale volume", Stale: true, Empty: true, Want: Leaves},
	{Name: "a thin pool", Pool: true},
	{Name: "empty, and a thin pool", Pool: true, Empty: true, Want: Leaves},
	{Name: "its move is under way", Move: Own, Want: Moves},
	{Name: "its move is under way, and takes all the room", Move: Own, Full: true, Want: Moves},
	{Name: "its move, and a stale volume", Move: Own, Stale: true},
	{Name: "its move, and another is missing", Move: Own, Missing: true},
	{Name: "another's move is under way", Move: Another},
	{Name: "empty, and another's move is under way", Move: Another, Empty: true},
	{Name: "empty, another's move, and a stale volume", Move: Another, Empty: true, Stale: true},
	{Name: "a person's move", Move: Persons},
	{Name: "a person's move, and a stale volume", Move: Persons, Stale: true},
}

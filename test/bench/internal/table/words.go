package table

// The words of the page.
const (
	head = `# Benchmarks

This page is written by ` + "`make bench`" + `; do not edit it. Machine: 2 cores, user-mode-linux node, ubd disks on files
(%s). Shared LUNs are those of the lab's storage node, over its network.

Such a node starts processes and reads disks far more slowly than hardware does, so only ratios and counts mean anything, and
only within one run: contenders take turns in one run on the same node, in another order each round. A ratio is taken
within a round; shown are the median of the rounds and, in brackets, the quartiles. The first round is not counted.

Quarry is the agent's own binary, called over TCP with TLS and certificates on both sides as in production. While others have their
turn it is halted, and the node's own agent pod is away, so that nobody pays for what another observes. All contenders run the same
LVM of the node.

`
	prepareHead = `## Preparing disks

` + "`EnsureVolumeGroup`" + ` against ` + "`pvcreate` and `vgcreate`" + `, on the same disks, zeroed before each turn. The call includes the agent's
checks: it looks at every disk of the node before, at each wanted one under an exclusive open right before it is written, and at
everything after. The bare commands check nothing; with Quarry's configuration they see the same devices as the agent's.

Bare, N disks are two commands; here they are N times ` + "`pvcreate`, one `vgcreate`" + ` and the report that the caller gets. One for each disk is the
price of writing on it whose it is before anything else ([decision 0004](decisions/0004-physical-volume-ownership.md)), which is why
the goal is missed.

`
	commandsHead = `## LVM commands per call

Counted by an LVM that writes down what it is run with. Observing afterwards is what the agent does when the kernel tells of a
change, after the caller was answered; one such observation serves all changes of a burst.

`
	volumesHead = `## Creating and deleting a volume

A linear volume of 64 MiB. Numbers are multiples of one bare ` + "`lvcreate` or `lvremove`" + ` with the same configuration; the goal for
Quarry's create is %.2f. TopoLVM's lvmd (v0.41.0, test/bench/topolvm) is called over its Unix socket without TLS, and starts LVM
without the nsenter that it uses in a container. With Quarry's configuration its commands, like the others, see the disk of its group only.
"In a row" is eight volumes without a pause, so that what the agent observes of its own changes counts too; elsewhere the
machine is at rest before each call.

`
	configHead = `
What the configuration alone makes of it, Debian's against Quarry's:

`
	sharedHead = `## Creating and deleting a volume of a shared LUN

A linear volume of 64 MiB in the group of an Iscsi. The agent, bare commands and lvmd have a LUN of one iSCSI target each, and the same LVM
configuration, Quarry's. Numbers are multiples of one bare command. For "create" that is the very ` + "`lvcreate`" + ` that the agent runs, which makes a volume
that is not active; lvmd has no such thing. In its ` + "`ChangeSharedGroup`" + ` the agent asks the target which LUN that is and whether its own key is registered,
and reads the group before the change and after it: another node may have changed it, and nobody is told what was not seen. That is the price of one
writer whose word counts ([decision 0038](decisions/0038-one-writer.md)).

"With its device" is until the volume can be opened on the node. Bare, and in lvmd, that is one ` + "`lvcreate`" + ` that activates and clears the beginning; in the agent the
four calls that a controller makes, without the zeroing: create, hold, ready and map; and leave, unmap, release and remove afterwards.

"Against its own local group" is the agent's time as a multiple of what the same agent takes in the same round for a volume of a local group, whose only call makes the device, too
(` + "`CreateLogicalVolume`, `DeleteLogicalVolume`" + `). That group is on a disk of the node, not behind a network.

`
	sharedCounts = `
LVM commands per call, counted as above:

`
	ioHead = `## Requests through the device of a volume

How fast requests are through the dm-linear map of a volume on a shared LUN, as a part of the speed of the LUN itself: O_DIRECT, one request at a
time, each to the same place through the map and past it right after the other, in changing order. A round is 128 requests of 4 KiB or 16 of 1 MiB
each way. What the map adds in a round is the median of what it adds at each place, for the two requests there met the same moment of the machine. The median
of all rounds lies between the two values beside it in 95 of 100 such measurements. ` + "`BENCH_BUDGET=25m test/bench/run LAB io`" + ` takes them in a bare lab of one node;
rounds of several runs are joined.

Each kind is measured over two networks in the same rounds, on the same volume and through the same map:

- The lab's. The LUN waits for no disk, so a request takes the time that the machine's two processors need for it, in user-mode kernels. These rows show what the map costs such a kernel, in µs.
- One that is %d ms longer: the node sends each packet so much later (netem). The LUN of a user answers after 0.5 to 1 ms, and no processor of the node works for most of that time.
  These rows show the ratio that a user sees; what the map adds is still the work of a user-mode kernel.

A dm-delay below the LUN cannot stand for such a LUN here: the lab's kernels have 100 ticks in a second, and 1 ms becomes 10 ms.

`
	movesHead = `## Moving a volume between nodes

What ` + "`go test -tags e2e -run TestIscsiPodMovesBetweenNodes ./test/e2e`" + ` prints: from the making of a pod until it is Running, with a filesystem on a volume of an Iscsi.
The first one has it made. Each later pod is on another node, and the pod before was ended in the middle of its writes and is gone. What the
scheduler, the kubelet and the image take is in these times, on three nodes of the same two cores.

`
	cephHead = `## Volumes of Ceph beside local ones

What ` + "`make e2e-ceph RUN='^TestCephFSClaims$$'`" + ` prints: a claim of 64 MiB and a pod on it, of a Cluster of type cephfs on two hosts with four OSDs and two copies, and of a
Cluster of type lvm on a third host, in turns. CreateVolume is the call within the CSI controller: a subvolume with its quota and its path, over a connection that stays. All of Ceph and Kubernetes runs
on the same two cores.

`
	memoryHead = `## The agent's memory

Idle, at most %d MiB resident are wanted.

`
	claimsHead = `## A hundred claims

What ` + "`go test -tags e2e -run TestHundredClaims ./test/e2e`" + ` prints: claims of 16 MiB, all made at once, spread over three
nodes of the same two cores, with the real provisioner.

`
	timesHead = `## Aside: milliseconds

Medians on this machine. They say nothing about another.

`
)

//go:build sanity

package sanity

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/onsi/ginkgo/v2/types"

	"quarry.storage/quarry/pkg/api/v1alpha1"
)

// exception is a reason why cases of the suite are not run.
type exception struct {
	reason string
	// barred is true for cases that do not skip themselves.
	barred bool
	// driver is set when the reason holds for one driver only, except when it holds for all drivers but some.
	driver string
	except []string
	// linear is true when the reason holds for linear volumes only.
	linear bool
	// cases are their names, by what they stand under.
	cases map[string][]string
}

const controllerService = "Controller Service [Controller Server] "

// copies are the cases about snapshots and copies.
var copies = map[string][]string{
	controllerService + "CreateVolume": {
		"should create volume from an existing source snapshot",
		"should fail when the volume source snapshot is not found",
		"should create volume from an existing source volume",
		"should fail when the volume source volume is not found",
	},
	"CreateSnapshot [Controller Server]": {
		"should fail when no name is provided",
		"should fail when no source volume id is provided",
		"should succeed when requesting to create a snapshot with already existing name and same source volume ID",
		"should fail when requesting to create a snapshot with already existing name and different source volume ID",
		"should succeed when creating snapshot with maximum-length name",
	},
	"ListSnapshots [Controller Server]": {
		"should return appropriate values (no optional values added)",
		"should return snapshots that match the specified snapshot id",
		"should return empty when the specified snapshot id does not exist",
		"should return snapshots that match the specified source volume id",
		"should return empty when the specified source volume id does not exist",
		"check the presence of new snapshots in the snapshot list",
		"should return next token when a limited number of entries are requested",
	},
	"GetSnapshot [Controller Server]": {
		"should return an error",
		"should return snapshot that match the specified snapshot id",
		"should return an error when the specified snapshot id does not exist",
	},
	"DeleteSnapshot [Controller Server]": {
		"should fail when no snapshot id is provided",
		"should succeed when an invalid snapshot id is used",
		"should return appropriate values (no optional values added)",
	},
}

// exceptions are all cases of the suite that are not run.
var exceptions = []exception{
	{
		reason: "the suite itself has taken this case out (it is pending there)",
		cases: map[string][]string{controllerService + "ListVolumes": {
			"pagination should detect volumes added between pages and accept tokens when the last volume from a page is deleted",
		}},
	},
	{
		reason: "volumes are not attached: the CSIDriver says attachRequired false, and the service has no PUBLISH_UNPUBLISH_VOLUME",
		except: []string{v1alpha1.DriverISCSI},
		cases: map[string][]string{
			controllerService + "ControllerPublishVolume": {
				"should fail when no volume id is provided",
				"should fail when no node id is provided",
				"should fail when no volume capability is provided",
				"should fail when publishing more volumes than the node max attach limit",
				"should fail when the volume does not exist",
				"should fail when the node does not exist",
				"should fail when the volume is already published but is incompatible",
			},
			controllerService + "volume lifecycle":          {"should work", "should be idempotent"},
			controllerService + "ControllerUnpublishVolume": {"should fail when no volume id is provided"},
		},
	},
	{
		reason: "volumes have no parameters that can be changed: the service has no MODIFY_VOLUME",
		cases: map[string][]string{
			controllerService + "CreateVolume": {
				"should create volume with a volume attribute class",
				"should not create volume with an invalid volume attribute class",
			},
			"ModifyVolume [Controller Server]": {
				"should fail if no volume id is given",
				"should fail if volume does not exist",
				"should fail if specified mutable parameters are not supported by the volume",
				"should modify a volume created without a volume attribute class",
				"should modify a volume created with a volume attribute class",
				"should fail to modify a volume created with a volume attribute class if new mutable parameters are not supported by volume",
			},
		},
	},
	{
		reason: "there are no group snapshots: the plugin has no GROUP_CONTROLLER_SERVICE; barred, because the suite's own cleaning up " +
			"panics after it skipped one of these",
		barred: true,
		cases: map[string][]string{
			"GroupController Service [GroupController Server] GroupControllerGetCapabilities":          {"should return appropriate capabilities"},
			"GroupController Service [GroupController VolumeGroupSnapshots] CreateVolumeGroupSnapshot": {"should fail when no name is provided"},
			"GroupController Service [GroupController VolumeGroupSnapshots] GetVolumeGroupSnapshot": {
				"should fail when no volume id is provided", "should fail when an invalid volume id is used",
			},
			"GroupController Service [GroupController VolumeGroupSnapshots] DeleteVolumeGroupSnapshot": {
				"should fail when no volume id is provided", "should succeed when an invalid volume id is used",
			},
		},
	},
	{
		reason: "snapshots and copies are thin: for linear volumes they are refused, snapshots with FAILED_PRECONDITION and copies with " +
			"INVALID_ARGUMENT",
		barred: true, linear: true,
		cases: map[string][]string{
			controllerService + "CreateVolume": {
				"should create volume from an existing source snapshot",
				"should create volume from an existing source volume",
			},
			"ListSnapshots [Controller Server]": {
				"should return snapshots that match the specified snapshot id",
				"should return snapshots that match the specified source volume id",
				"check the presence of new snapshots in the snapshot list",
				"should return next token when a limited number of entries are requested",
			},
			"GetSnapshot [Controller Server]":    {"should return snapshot that match the specified snapshot id"},
			"DeleteSnapshot [Controller Server]": {"should return appropriate values (no optional values added)"},
			"CreateSnapshot [Controller Server]": {
				"should succeed when requesting to create a snapshot with already existing name and same source volume ID",
				"should fail when requesting to create a snapshot with already existing name and different source volume ID",
				"should succeed when creating snapshot with maximum-length name",
			},
		},
	},
	{
		reason: "NFS has no snapshots and no copies: the service has neither CREATE_DELETE_SNAPSHOT nor CLONE_VOLUME",
		driver: v1alpha1.DriverNFS, cases: copies,
	},
	{
		reason: "attachments of volumes on shared LUNs are never read-only, the node service is: the service has no PUBLISH_READONLY",
		driver: v1alpha1.DriverISCSI,
		cases: map[string][]string{
			controllerService + "ControllerPublishVolume": {"should fail when the volume is already published but is incompatible"},
		},
	},
	{
		reason: "the driver limits no attachments; the suite tries this where it is told to only",
		driver: v1alpha1.DriverISCSI,
		cases: map[string][]string{
			controllerService + "ControllerPublishVolume": {"should fail when publishing more volumes than the node max attach limit"},
		},
	},
	{
		reason: "a volume on NFS grows by its number only: the node service has no EXPAND_VOLUME",
		driver: v1alpha1.DriverNFS,
		cases: map[string][]string{
			"Node Service NodeExpandVolume": {
				"should fail when no volume id is provided",
				"should fail when no volume path is provided",
				"should fail when volume is not found",
				"should work if node-expand is called after node-publish",
			},
		},
	},
	{
		reason: "Ceph keeps volumes within their size by itself: the node service has no EXPAND_VOLUME",
		driver: v1alpha1.DriverCephFS,
		cases: map[string][]string{
			"Node Service NodeExpandVolume": {
				"should fail when no volume id is provided",
				"should fail when no volume path is provided",
				"should fail when volume is not found",
				"should work if node-expand is called after node-publish",
			},
		},
	},
	{
		reason: "Ceph keeps snapshots with their volumes: the handles of two of one name differ, and only a command for each volume, which a call beside it " +
			"outdates, would find the name (decision 0064)",
		driver: v1alpha1.DriverCephFS, barred: true,
		cases: map[string][]string{
			"CreateSnapshot [Controller Server]": {"should fail when requesting to create a snapshot with already existing name and different source volume ID"},
		},
	},
	{
		reason: "NFS enforces no size, so nothing is promised of what is free: the service has no GET_CAPACITY",
		driver: v1alpha1.DriverNFS,
		cases:  map[string][]string{controllerService + "GetCapacity": {"should return capacity (no optional values added)"}},
	},
}

// row is one case that is not run.
type row struct {
	name, reason string
	barred       bool
}

// selection is which cases are meant, by their whole names.
type selection struct {
	// focus is the expression on those that are meant, and skip on those that are not even so. An empty one says nothing.
	focus, skip *regexp.Regexp
}

func newSelection(focus, skip string) (s selection, err error) {
	if s.focus, err = regexp.Compile(focus); err != nil || skip == "" {
		return s, err
	}
	s.skip, err = regexp.Compile(skip)
	return s, err
}

func (s selection) means(name string) bool {
	return s.focus.MatchString(name) && (s.skip == nil || !s.skip.MatchString(name))
}

// table lists the cases, of those that are meant, that are not run with one driver and kind of volumes.
func table(driver string, linear bool, meant selection) []row {
	var rows []row
	for _, e := range exceptions {
		if e.linear && !linear || e.driver != "" && e.driver != driver || slices.Contains(e.except, driver) {
			continue
		}
		for under, names := range e.cases {
			for _, name := range names {
				if full := under + " " + name; meant.means(full) {
					rows = append(rows, row{name: full, reason: e.reason, barred: e.barred})
				}
			}
		}
	}
	return rows
}

// compare says where the table and what was not run differ.
func compare(rows []row, cases []types.SpecReport, meant selection) []string {
	named := map[string]bool{}
	for _, r := range rows {
		named[r.name] = true
	}
	var complaints []string
	for _, c := range cases {
		name := c.FullText()
		if c.LeafNodeType != types.NodeTypeIt || !meant.means(name) {
			continue
		}
		run := !c.State.Is(types.SpecStateSkipped | types.SpecStatePending)
		switch {
		case named[name] && run:
			complaints = append(complaints, fmt.Sprintf("the table names %q, but it was run: %s", name, c.State))
		case !named[name] && !run:
			complaints = append(complaints, fmt.Sprintf("%q was not run (%s %s), and the table does not name it", name, c.State, c.Failure.Message))
		}
		delete(named, name)
	}
	for name := range named {
		complaints = append(complaints, fmt.Sprintf("the table names %q, which the suite does not have", name))
	}
	return complaints
}

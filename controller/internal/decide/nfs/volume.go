package nfs

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/sharedvolume"
)

// CheckParameters refuses the parameters of a StorageClass that are wrong. The UID of an Nfs is all that there is.
func CheckParameters(own map[string]string) error {
	if err := volume.Known(own, v1alpha1.ParameterNfs); err != nil {
		return err
	}
	uid, given := own[v1alpha1.ParameterNfs]
	if !given {
		return nil
	}
	if err := sharedvolume.CheckOwner(uid); err != nil {
		return volume.Refuse(volume.Invalid, "parameter %q names the Nfs by its UID: %v", v1alpha1.ParameterNfs, err)
	}
	return nil
}

// Describe returns what is recorded of a new volume of an Nfs. The claim and the name of the volume fill the template of the directory.
func Describe(n *v1alpha1.Nfs, claim volume.Claim, name string) (sharedvolume.Attributes, error) {
	if !n.DeletionTimestamp.IsZero() {
		return sharedvolume.Attributes{}, volume.Refuse(volume.Precondition, "Nfs %s is being deleted and takes no new volumes", n.Name)
	}
	if c := meta.FindStatusCondition(n.Status.Conditions, v1alpha1.ConditionShareReachable); c != nil && c.Status == metav1.ConditionFalse && c.Reason == sharedvolume.ReasonOtherShare {
		// A volume there would be evidence that this is the right share.
		return sharedvolume.Attributes{}, volume.Refuse(volume.Unavailable, "Nfs %s takes no new volumes while its share is not the one on record: %s", n.Name, c.Message)
	}
	share := ShareOf(n)
	a := sharedvolume.Attributes{Server: share.Server, Path: share.Path, MountOptions: share.MountOptions}
	values := sharedvolume.Values{Namespace: claim.Namespace, Claim: claim.Name, Volume: claim.Volume}
	if values.Volume == "" {
		values.Volume = name
	}
	var err error
	if a.OnDelete, err = sharedvolume.ParsePolicy(string(n.Spec.OnDelete)); err == nil {
		a.Directory, err = sharedvolume.ExpandTemplate(n.Spec.SubDir, values)
	}
	if err == nil {
		err = a.Check()
	}
	if err != nil {
		return a, volume.Refuse(volume.Invalid, "Nfs %s: %v", n.Name, err)
	}
	return a, nil
}

// Condition returns the condition of the volumes of an Nfs; nil stands for an Nfs that does not exist.
func Condition(n *v1alpha1.Nfs) volume.Condition {
	if n == nil {
		return volume.Abnormal("the Nfs that the volume was made for does not exist any more: nobody watches the share")
	}
	c := meta.FindStatusCondition(n.Status.Conditions, v1alpha1.ConditionShareReachable)
	if c == nil || c.Status != metav1.ConditionFalse {
		return volume.Healthy()
	}
	return volume.Abnormal(fmt.Sprintf("the share of Nfs %s cannot be used: %s", n.Name, c.Message))
}

// Progress is what a person reads while the deletion of a volume goes on.
func Progress(name string, r sharedvolume.Removal) string {
	return fmt.Sprintf("the directory of volume %s is being removed: %d entries are gone so far; the deletion goes on", name, r.Removed)
}

// Outcome is what a log says of a deletion that is done; empty when there is nothing to say.
func Outcome(r sharedvolume.Removal) string {
	var parts []string
	switch {
	case r.ArchivedAs != "":
		parts = append(parts, "archived as "+r.ArchivedAs)
	case r.OnDelete == sharedvolume.Retain:
		parts = append(parts, "left where it is")
	}
	if r.Note != "" {
		parts = append(parts, r.Note)
	}
	return strings.Join(parts, "; ")
}

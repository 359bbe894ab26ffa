package place

import (
	"cmp"
	"regexp"
	"strconv"

	"quarry.storage/quarry/controller/internal/decide/volume"
	"quarry.storage/quarry/pkg/api/v1alpha1"
	"quarry.storage/quarry/pkg/filesystem"
)

// maxOverprovision, in percent, is the most that agents take.
const maxOverprovision = 100_000

// Parameters are those of a StorageClass.
type Parameters struct {
	// Cluster is the UID of the Cluster; empty when it is not given.
	Cluster string
	// Thin is the thin pool; its zero value stands for linear volumes.
	Thin Thin
	// Mkfs are the options with which the filesystem is made, as they were given.
	Mkfs string
}

// poolForm are the names of thin pools: LVM takes them, and none is read as an option or a path.
var poolForm = regexp.MustCompile(`^[A-Za-z0-9_+][A-Za-z0-9_+.-]{0,63}$`)

// Parse reads the parameters of a StorageClass, without those that Kubernetes adds. It refuses unknown ones.
func Parse(given map[string]string) (Parameters, error) {
	if err := volume.Known(given, v1alpha1.ParameterCluster, v1alpha1.ParameterThinPool, v1alpha1.ParameterOverprovision, v1alpha1.ParameterMkfsOptions); err != nil {
		return Parameters{}, err
	}
	uid, ok := given[v1alpha1.ParameterCluster]
	if ok && uid == "" {
		return Parameters{}, volume.Refuse(volume.Invalid, "parameter %q is empty: it names the Cluster by its UID", v1alpha1.ParameterCluster)
	}
	thin, err := parseThin(given)
	return Parameters{Cluster: uid, Thin: thin, Mkfs: given[v1alpha1.ParameterMkfsOptions]}, err
}

// CheckMkfs refuses options of mkfs that are not taken for the filesystem; the default one when it is empty.
func (p Parameters) CheckMkfs(fsType string) error {
	if _, err := filesystem.ParseMkfsOptions(cmp.Or(fsType, filesystem.Default), filesystem.SplitOptions(p.Mkfs)); err != nil {
		return volume.Refuse(volume.Invalid, "parameter %q: %v", v1alpha1.ParameterMkfsOptions, err)
	}
	return nil
}

func parseThin(given map[string]string) (Thin, error) {
	pool, isThin := given[v1alpha1.ParameterThinPool]
	percent, bounded := given[v1alpha1.ParameterOverprovision]
	switch {
	case isThin && !poolForm.MatchString(pool):
		return Thin{}, volume.Refuse(volume.Invalid, "parameter %q: %s is no name of a thin pool", v1alpha1.ParameterThinPool, volume.Quote(pool))
	case bounded && !isThin:
		return Thin{}, volume.Refuse(volume.Invalid, "parameter %q goes with %q only", v1alpha1.ParameterOverprovision, v1alpha1.ParameterThinPool)
	case !bounded:
		return Thin{Pool: pool}, nil
	}
	n, err := strconv.ParseInt(percent, 10, 32)
	if err != nil || n < 1 || n > maxOverprovision {
		return Thin{}, volume.Refuse(volume.Invalid, "parameter %q: %s is no number of percent from 1 to %d",
			v1alpha1.ParameterOverprovision, volume.Quote(percent), maxOverprovision)
	}
	return Thin{Pool: pool, Percent: int32(n)}, nil
}

package option

import (
	"errors"
	"strconv"
)

// Cluster has the options of the cluster with their defaults.
var Cluster = map[string]string{
	"cluster.shared-storage":             "off",
	"cluster.op-version":                 "50000",
	"cluster.max-op-version":             "50000",
	"cluster.brick-multiplex":            "off",
	"cluster.max-bricks-per-process":     "250",
	"cluster.localtime-logging":          "off",
	"block-hosting-volume-size":          "5GiB",
	"block-hosting-volume-type":          "Replicate",
	"block-hosting-volume-replica-count": "3",
	"auto-create-block-hosting-volumes":  "true",
	"auto-delete-block-hosting-volumes":  "false",
}

// CheckCluster says why a value cannot be set. One option alone is checked.
func CheckCluster(key, value string) error {
	if key != "cluster.max-bricks-per-process" {
		return nil
	}
	if _, err := strconv.Atoi(value); err != nil {
		return errors.New("error parsing the value. Make sure the value is a valid integer")
	}
	return nil
}

// Bool reads a value as the server does when a volume starts.
func Bool(value string) (on, ok bool) {
	switch value {
	case "on", "yes", "true", "enable", "1":
		return true, true
	case "off", "no", "false", "disable", "0":
		return false, true
	}
	return false, false
}

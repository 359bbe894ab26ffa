package decide

import "k8s.io/apimachinery/pkg/api/resource"

// Bytes returns a size as a quantity with a binary suffix.
func Bytes(n int64) string { return resource.NewQuantity(n, resource.BinarySI).String() }

package kube

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

// Apply brings the fields of an object to what is wanted; those that others set stay as they are. what names the object in an error.
func Apply(ctx context.Context, c client.Client, what string, want runtime.ApplyConfiguration) error {
	if err := c.Apply(ctx, want, FieldOwner, client.ForceOwnership); err != nil {
		return fmt.Errorf("apply %s: %w", what, err)
	}
	return nil
}

// ApplyChild brings a child to what is wanted; want is then as the API server has it. have is the child as it was read; nil when there was
// none. What was made or changed is logged.
func ApplyChild(ctx context.Context, c client.Client, want, have *unstructured.Unstructured) error {
	var before string
	if have != nil {
		before = have.GetResourceVersion()
	}
	if err := Apply(ctx, c, want.GetKind()+" "+want.GetName(), client.ApplyConfigurationFromUnstructured(want)); err != nil {
		return err
	}
	log := logf.FromContext(ctx)
	switch before {
	case "":
		log.Info("Made child", "kind", want.GetKind(), "name", want.GetName())
	case want.GetResourceVersion():
	default:
		log.Info("Changed child", "kind", want.GetKind(), "name", want.GetName())
	}
	return nil
}

package kube

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// Rehearse asks the API server, and the webhooks that it asks, whether they would take what Apply applies. Nothing is stored.
func Rehearse(ctx context.Context, c client.Client, want *unstructured.Unstructured) error {
	o := client.ApplyConfigurationFromUnstructured(want.DeepCopy())
	if err := c.Apply(ctx, o, FieldOwner, client.ForceOwnership, client.DryRunAll); err != nil {
		return fmt.Errorf("rehearse %s %s: %w", want.GetKind(), want.GetName(), err)
	}
	return nil
}

// undeclared is what the API server says, as an internal error of its own, of an object that does not go with the schema of its kind.
const undeclared = "failed to create typed patch object"

// Refused reports whether an error is the API server's or a webhook's verdict on the object itself: the same object is refused again. Everything
// else is no verdict: missing rights, a webhook that cannot be reached or that takes no part in rehearsals, a broken connection.
func Refused(err error) bool {
	switch {
	case err == nil, strings.Contains(err.Error(), "does not support dry run"):
		return false
	case apierrors.IsForbidden(err):
		return !Denied(err)
	}
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err) ||
		strings.Contains(err.Error(), undeclared)
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

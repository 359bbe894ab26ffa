// Package kube holds what every reconciler does with the API server in the same way: writing a status, changing an object that somebody
// else may change too, applying what it owns, emitting events and watching. It knows no single kind and decides nothing.
package kube

import (
	"context"
	"errors"
	"reflect"
	"regexp"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

// FieldOwner is the one field owner of everything that the controller writes.
const FieldOwner = client.FieldOwner("quarry-controller")

// Again is how soon a reconciler looks again after somebody else wrote at the same time.
const Again = time.Second

// Retry turns a conflict at the end of a reconcile into another look a moment later: what the other one wrote comes back as an event, and
// until then the cache may be stale. Other errors that mean the same to the caller are named by also. Joined errors are retried in this
// way only when each of them is; a conflict never hides another error.
func Retry(ctx context.Context, result ctrl.Result, err error, also ...func(error) bool) (ctrl.Result, error) {
	switch {
	case err == nil:
		return result, nil
	case !passing(err, also):
		return ctrl.Result{}, err
	}
	logf.FromContext(ctx).V(1).Info("Retrying after a conflict", "error", err.Error())
	if result.RequeueAfter == 0 || result.RequeueAfter > Again {
		result.RequeueAfter = Again
	}
	return result, nil
}

// passing reports whether an error is a conflict, or joins conflicts only.
func passing(err error, also []func(error) bool) bool {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		for _, e := range joined.Unwrap() {
			if !passing(e, also) {
				return false
			}
		}
		return true
	}
	for _, is := range also {
		if is(err) {
			return true
		}
	}
	return apierrors.IsConflict(err)
}

// denied is what the API server's authorizer says. Admission refuses with the same status and no cause of its own, so only the words tell a missing
// right from a quota, a policy or Pod Security.
var denied = regexp.MustCompile(`User "[^"]*" cannot \w+ resource`)

// Denied reports whether the API server refused a call because the caller lacks the right.
func Denied(err error) bool { return apierrors.IsForbidden(err) && denied.MatchString(err.Error()) }

// describe names an object in an error: "storagenode n1", "deployment quarry-system/quarry-csi-lvm".
func describe(o client.Object) string {
	kind := o.GetObjectKind().GroupVersionKind().Kind
	if kind == "" {
		// Objects that were read from a cache carry no TypeMeta.
		kind = reflect.TypeOf(o).Elem().Name()
	}
	name := o.GetName()
	if namespace := o.GetNamespace(); namespace != "" {
		name = namespace + "/" + name
	}
	return strings.ToLower(kind) + " " + name
}

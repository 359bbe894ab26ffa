package kube

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"

	"quarry.storage/quarry/controller/internal/apitest"
	"quarry.storage/quarry/controller/internal/decide/notice"
	"quarry.storage/quarry/pkg/api/v1alpha1"
)

func TestMain(m *testing.M) { apitest.Main(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestDenied(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for text, want := range map[string]bool{
		`User "system:serviceaccount:quarry-system:quarry-controller" cannot create resource "pods" in API group "" in the namespace "a"`: true,
		"exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1":                                                             false,
		`violates PodSecurity "restricted:latest"`:                                                                                        false,
	} {
		if got := Denied(fmt.Errorf("create pod: %w", apierrors.NewForbidden(pods, "p", errors.New(text)))); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
	if Denied(errors.New(`User "x" cannot create resource "pods"`)) {
		t.Error("an error of somebody else counts")
	}
}

func TestRetry(t *testing.T) {
	resource := schema.GroupResource{Group: v1alpha1.Group, Resource: "clusters"}
	conflict := fmt.Errorf("patch: %w", apierrors.NewConflict(resource, "c", errors.New("changed")))
	exists := fmt.Errorf("create: %w", apierrors.NewAlreadyExists(resource, "c"))
	failure := errors.New("no disk")
	for name, tt := range map[string]struct {
		result ctrl.Result
		err    error
		also   []func(error) bool
		want   ctrl.Result
		fails  bool
	}{
		"no error":                               {result: ctrl.Result{RequeueAfter: time.Minute}, want: ctrl.Result{RequeueAfter: time.Minute}},
		"a conflict":                             {err: conflict, want: ctrl.Result{RequeueAfter: Again}},
		"a conflict, and nothing to wait for":    {result: ctrl.Result{RequeueAfter: time.Hour}, err: conflict, want: ctrl.Result{RequeueAfter: Again}},
		"a conflict, and sooner anyway":          {result: ctrl.Result{RequeueAfter: time.Millisecond}, err: conflict, want: ctrl.Result{RequeueAfter: time.Millisecond}},
		"two conflicts":                          {err: errors.Join(conflict, conflict), want: ctrl.Result{RequeueAfter: Again}},
		"another error":                          {result: ctrl.Result{RequeueAfter: time.Minute}, err: failure, fails: true},
		"a conflict does not hide another error": {err: fmt.Errorf("x: %w", errors.Join(conflict, failure)), fails: true},
		"nor one that came first":                {err: errors.Join(failure, conflict), fails: true},
		"what exists":                            {err: exists, fails: true},
		"what exists, named": {
			err: errors.Join(exists, conflict), also: []func(error) bool{apierrors.IsAlreadyExists}, want: ctrl.Result{RequeueAfter: Again},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Retry(t.Context(), tt.result, tt.err, tt.also...)
			if got != tt.want || (err != nil) != tt.fails {
				t.Errorf("%+v, %v", got, err)
			}
			if tt.fails && !errors.Is(err, tt.err) {
				t.Errorf("another error: %v", err)
			}
		})
	}
}

func TestEmit(t *testing.T) {
	to := events.NewFakeRecorder(3)
	long := strings.Repeat("ä", 600)
	Emit(to, &corev1.Pod{}, notice.Note{Kind: "Normal", Reason: "One", Action: "Do", Message: "100 % done"},
		notice.Note{Kind: "Warning", Reason: "Two", Action: "Do", Message: long})
	if got, want := <-to.Events, "Normal One 100 % done"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	got := strings.TrimPrefix(<-to.Events, "Warning Two ")
	if len(got) > 1024 || !utf8.ValidString(got) || !strings.HasSuffix(got, "…") {
		t.Errorf("%d bytes: %q", len(got), got)
	}
	if len(to.Events) != 0 {
		t.Error("more events than notes")
	}
}

func TestDescribe(t *testing.T) {
	got := []string{
		describe(&v1alpha1.StorageNode{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}),
		describe(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns"}}),
		describe(Definition()),
	}
	if d := cmp.Diff([]string{"storagenode n1", "pod ns/p", "customresourcedefinition "}, got); d != "" {
		t.Error(d)
	}
}

func TestChanges(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	changed := make(chan string, 1)
	q := newQueue(t)
	must(t, Changes(changed, time.Millisecond, func(_ context.Context, name string) []ctrl.Request {
		return requests(name, name+"'")
	}).Start(ctx, q))
	changed <- "n1"
	got := map[string]bool{}
	for range 2 {
		r, _ := q.Get()
		got[r.Name] = true
	}
	if !got["n1"] || !got["n1'"] {
		t.Errorf("requests: %v", got)
	}
	close(changed)
}

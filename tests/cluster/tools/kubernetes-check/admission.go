package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/plugin/pkg/admission/priority"
	"k8s.io/kubernetes/plugin/pkg/admission/runtimeclass"
	"k8s.io/utils/ptr"
)

// admissions are the plugins, on by default, that compute fields of a pod and refuse what the pod says of them itself.
type admissions struct {
	priority        *priority.Plugin
	runtimeClass    *runtimeclass.RuntimeClass
	priorityClasses cache.Indexer
	runtimeClasses  cache.Indexer
}

func newAdmissions() (*admissions, error) {
	// Never asked: every class that a pod names is put where the plugins look first.
	client, err := kubernetes.NewForConfig(&rest.Config{})
	if err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	made := &admissions{
		priority:        priority.NewPlugin(),
		runtimeClass:    runtimeclass.NewRuntimeClass(),
		priorityClasses: factory.Scheduling().V1().PriorityClasses().Informer().GetIndexer(),
		runtimeClasses:  factory.Node().V1().RuntimeClasses().Informer().GetIndexer(),
	}
	made.priority.SetExternalKubeClientSet(client)
	made.priority.SetExternalKubeInformerFactory(factory)
	made.runtimeClass.SetExternalKubeClientSet(client)
	made.runtimeClass.SetExternalKubeInformerFactory(factory)
	return made, nil
}

// admit does to a new pod what they do, and gives their refusals. The classes that it names are plain ones.
func (a *admissions) admit(pod *core.Pod) ([]error, error) {
	if name := pod.Spec.PriorityClassName; name != "" {
		class := &schedulingv1.PriorityClass{
			ObjectMeta:       metav1.ObjectMeta{Name: name},
			Value:            1000,
			PreemptionPolicy: ptr.To(corev1.PreemptLowerPriority),
		}
		if err := a.priorityClasses.Add(class); err != nil {
			return nil, err
		}
	}
	if name := ptr.Deref(pod.Spec.RuntimeClassName, ""); name != "" {
		class := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Handler: "handler"}
		if err := a.runtimeClasses.Add(class); err != nil {
			return nil, err
		}
	}
	attributes := admission.NewAttributesRecord(
		pod, nil, core.Kind("Pod").WithVersion("v1"), namespace, pod.Name, core.Resource("pods").WithVersion("v1"), "",
		admission.Create, &metav1.CreateOptions{}, false, nil,
	)
	ctx := context.Background()
	var refusals []error
	for _, err := range []error{
		a.priority.Admit(ctx, attributes, nil),
		a.runtimeClass.Admit(ctx, attributes, nil),
		a.runtimeClass.Validate(ctx, attributes, nil),
	} {
		if err != nil {
			refusals = append(refusals, err)
		}
	}
	return refusals, nil
}

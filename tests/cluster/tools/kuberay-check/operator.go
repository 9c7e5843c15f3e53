package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	"github.com/ray-project/kuberay/ray-operator/controllers/ray/common"
	"github.com/ray-project/kuberay/ray-operator/controllers/ray/utils"
	webhooks "github.com/ray-project/kuberay/ray-operator/pkg/webhooks/v1"
)

// childSuffix stands for the five random characters that the operator puts behind a RayJob's name.
const childSuffix = "-00000"

// guarded runs the operator's functions and turns a panic of theirs into an error: in the cluster it would be a
// reconcile that never ends well.
func guarded[T any](result *report, object *T, operator func(*report, *T) *rayv1.RayCluster) (cluster *rayv1.RayCluster) {
	defer func() {
		if cause := recover(); cause != nil {
			result.add("operator", fmt.Errorf("the operator's validation panics: %v", cause))
			cluster = nil
		}
	}()
	return operator(result, object)
}

// checkRayJob makes every check of the RayJob reconciler and webhook, then those of the RayCluster that the RayJob
// would create. It returns that RayCluster, nil when the job runs on an existing one.
func checkRayJob(result *report, job *rayv1.RayJob) *rayv1.RayCluster {
	result.add("ValidateRayJobMetadata", utils.ValidateRayJobMetadata(job.ObjectMeta))
	result.add("ValidateRayJobSpec", utils.ValidateRayJobSpec(job))
	result.add("ValidateRayJobStatus", utils.ValidateRayJobStatus(job))
	checkSubmissionMode(result, job)
	if job.Spec.RayClusterSpec == nil {
		return nil
	}
	return checkRayCluster(result, childCluster(job))
}

// checkRayCluster makes every check of the RayCluster reconciler and webhook.
func checkRayCluster(result *report, cluster *rayv1.RayCluster) *rayv1.RayCluster {
	metadata := utils.ValidateRayClusterMetadata(cluster.ObjectMeta)
	result.add("ValidateRayClusterMetadata", metadata)
	result.add("ValidateRayClusterSpec", utils.ValidateRayClusterSpec(&cluster.Spec, cluster.Annotations))
	result.add("ValidateRayClusterUpgradeOptions", utils.ValidateRayClusterUpgradeOptions(cluster))
	result.add("ValidateRayClusterStatus", utils.ValidateRayClusterStatus(cluster))
	if metadata == nil {
		// The webhook repeats the check of the name; what it adds is that group names are unique.
		_, err := (&webhooks.RayClusterWebhook{}).ValidateCreate(context.Background(), cluster)
		result.add("webhook", err)
	}
	checkAuthentication(result, cluster)
	return cluster
}

// childCluster is the RayCluster that the RayJob reconciler would create: labels and annotations copied, labels of
// origin added, a suffix of five characters on the name, here a fixed one so that two runs print the same; in
// SidecarMode with the container that submits. (The reconciler's own function is not exported.)
func childCluster(job *rayv1.RayJob) *rayv1.RayCluster {
	labels := maps.Clone(job.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[utils.RayOriginatedFromCRNameLabelKey] = job.Name
	labels[utils.RayOriginatedFromCRDLabelKey] = utils.RayOriginatedFromCRDLabelValue(utils.RayJobCRD)
	labels[utils.RayJobSubmissionModeLabelKey] = string(job.Spec.SubmissionMode)
	cluster := &rayv1.RayCluster{
		TypeMeta: metav1.TypeMeta{APIVersion: rayv1.GroupVersion.String(), Kind: "RayCluster"},
		ObjectMeta: metav1.ObjectMeta{
			Name:        job.Name + childSuffix,
			Namespace:   job.Namespace,
			Labels:      labels,
			Annotations: maps.Clone(job.Annotations),
		},
		Spec: *job.Spec.RayClusterSpec.DeepCopy(),
	}
	head := &cluster.Spec.HeadGroupSpec.Template.Spec
	if job.Spec.SubmissionMode == rayv1.SidecarMode && len(head.Containers) > 0 {
		container := common.GetDefaultSubmitterContainer(&cluster.Spec)
		completeSubmitter(&container, job, cluster)
		head.Containers = append(head.Containers, container)
		head.RestartPolicy = corev1.RestartPolicyNever
	}
	return cluster
}

// completeSubmitter gives a container that submits its command and its environment, as the RayJob reconciler does in a
// function that is not exported.
func completeSubmitter(container *corev1.Container, job *rayv1.RayJob, cluster *rayv1.RayCluster) {
	if len(container.Command) == 0 {
		container.Command = utils.GetContainerCommand([]string{"e"})
		if command, err := common.BuildJobSubmitCommand(job, job.Spec.SubmissionMode); err == nil {
			container.Args = []string{strings.Join(command, " ")}
		}
	}
	for _, name := range []string{"PYTHONUNBUFFERED", utils.RAY_DASHBOARD_ADDRESS, utils.RAY_JOB_SUBMISSION_ID} {
		container.Env = append(container.Env, corev1.EnvVar{Name: name, Value: "1"})
	}
	if utils.IsAuthEnabled(&cluster.Spec) {
		common.SetContainerTokenAuthEnvVars(cluster.Name, container, cluster.Spec.AuthOptions)
	}
}

// submitterPod is the pod of the Kubernetes Job that the RayJob reconciler would create in K8sJobMode.
func submitterPod(job *rayv1.RayJob, cluster *rayv1.RayCluster) corev1.Pod {
	template := common.GetSubmitterTemplate(&job.Spec, &cluster.Spec)
	completeSubmitter(&template.Spec.Containers[utils.RayContainerIndex], job, cluster)
	pod := corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: template.ObjectMeta,
		Spec:       template.Spec,
	}
	pod.GenerateName = job.Name + "-"
	pod.Namespace = cluster.Namespace
	return pod
}

// checkSubmissionMode refuses what neither the CRD nor the operator refuses: with an unknown mode the cluster comes
// up, nothing is submitted and the RayJob stays Running for ever.
func checkSubmissionMode(result *report, job *rayv1.RayJob) {
	modes := []rayv1.JobSubmissionMode{rayv1.K8sJobMode, rayv1.HTTPMode, rayv1.InteractiveMode, rayv1.SidecarMode}
	if !slices.Contains(modes, job.Spec.SubmissionMode) {
		result.add("trap", fmt.Errorf(
			"spec.submissionMode %q is none of %v: the operator would submit nothing, in silence", job.Spec.SubmissionMode, modes))
	}
}

// checkAuthentication refuses authOptions without a mode: the operator reads that as no authentication at all,
// whatever else the block holds.
func checkAuthentication(result *report, cluster *rayv1.RayCluster) {
	if options := cluster.Spec.AuthOptions; options != nil && options.Mode == "" {
		result.add("trap", fmt.Errorf(
			"authOptions has no mode: the operator would run the cluster without authentication, in silence"))
	}
}

// buildService is the Service of the head that the operator would create.
func buildService(cluster *rayv1.RayCluster) (*corev1.Service, error) {
	cluster = cluster.DeepCopy()
	if cluster.Namespace == "" {
		cluster.Namespace = metav1.NamespaceDefault
	}
	labels := map[string]string{}
	if name, ok := cluster.Spec.HeadGroupSpec.Template.Labels[utils.KubernetesApplicationNameLabelKey]; ok {
		labels[utils.KubernetesApplicationNameLabelKey] = name
	}
	service, err := common.BuildServiceForHeadPod(
		context.Background(), *cluster, labels, maps.Clone(cluster.Spec.HeadServiceAnnotations))
	if service != nil {
		service.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}
	}
	return service, err
}

// buildPods gives the pods that the RayCluster reconciler would create, the head and one worker of each group, with
// the `ray start` command, probes, volumes and environment that the operator adds.
func buildPods(cluster *rayv1.RayCluster) []corev1.Pod {
	ctx := context.Background()
	cluster = cluster.DeepCopy()
	if cluster.Namespace == "" {
		cluster.Namespace = metav1.NamespaceDefault
	}
	head := &cluster.Spec.HeadGroupSpec
	if head.RayStartParams == nil {
		head.RayStartParams = map[string]string{}
	}
	creator := utils.GetCRDType(cluster.Labels[utils.RayOriginatedFromCRDLabelKey])
	autoscaling := utils.IsAutoscalingEnabled(&cluster.Spec)
	service := utils.GenerateFQDNServiceName(ctx, *cluster, cluster.Namespace)
	port := common.GetHeadPort(head.RayStartParams)

	build := func(template corev1.PodTemplateSpec, node rayv1.RayNodeType, params map[string]string) corev1.Pod {
		return common.BuildPod(ctx, template, node, params, port, autoscaling, creator, service, nil, cluster.Spec.RayVersion)
	}
	name := utils.PodName(cluster.Name, rayv1.HeadNode, true)
	template := common.DefaultHeadPodTemplate(ctx, *cluster, *head, name, port)
	pods := []corev1.Pod{build(template, rayv1.HeadNode, head.RayStartParams)}
	for _, group := range cluster.Spec.WorkerGroupSpecs {
		if group.RayStartParams == nil {
			group.RayStartParams = map[string]string{}
		}
		name := utils.PodName(fmt.Sprintf("%s-%s", cluster.Name, group.GroupName), rayv1.WorkerNode, true)
		template := common.DefaultWorkerPodTemplate(ctx, *cluster, group, name, service, port, "", 0, 0)
		pods = append(pods, build(template, rayv1.WorkerNode, group.RayStartParams))
	}
	return pods
}

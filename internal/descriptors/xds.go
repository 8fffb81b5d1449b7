package descriptors

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	ratelimit "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// ResourceType is the type of the resources in which a control plane sends
// rules.
const ResourceType = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig"

// LoadResources checks the resources of a control plane, each of them a
// RateLimitConfig, and builds the Tree of their rules. What is allowed in a file
// is allowed there, and the same checks apply; a field that is not set means what
// it means in a file that leaves it out, except that requests_per_unit is then 0.
// Resources are joined in the order of their names. No resource at all makes an
// empty Tree, because so a control plane says that it has no rules.
//
// The error is of type Problems, which name the resource and the way to the
// field. Fields that are not known here, as a newer control plane may send them,
// are left out; unknown tells the first of each resource.
func LoadResources(resources []*anypb.Any, opts Options) (tree *Tree, unknown Problems, err error) {
	c := newCompiler("resource", opts)
	configs := make([]*ratelimit.RateLimitConfig, 0, len(resources))
	for i, resource := range resources {
		c.opts.Pause()
		if c.opts.ended() != nil {
			break
		}
		config, err := unpack(resource)
		if err != nil {
			c.problems = append(c.problems, Problem{File: fmt.Sprintf("resources[%d]", i), Message: err.Error()})
			continue
		}
		configs = append(configs, config)
	}
	slices.SortStableFunc(configs, func(a, b *ratelimit.RateLimitConfig) int { return cmp.Compare(a.GetName(), b.GetName()) })
	for _, config := range configs {
		if c.opts.ended() != nil {
			break
		}
		name := fmt.Sprintf("resource %q", config.GetName())
		writer := messageWriter{pause: c.opts.Pause}
		writer.File = name
		d := newDecoder(name, c.opts)
		c.add(d, d.file(writer.config(config)))
		c.problems = append(c.problems, d.Problems...)
		unknown = append(unknown, writer.Problems...)
	}
	tree, err = c.result()
	return tree, unknown, err
}

// unpack decodes a resource.
func unpack(resource *anypb.Any) (*ratelimit.RateLimitConfig, error) {
	if resource.GetTypeUrl() != ResourceType {
		return nil, fmt.Errorf("the type %q is not allowed, allowed is %s", resource.GetTypeUrl(), ResourceType)
	}
	config := new(ratelimit.RateLimitConfig)
	if err := proto.Unmarshal(resource.GetValue(), config); err != nil {
		// Some of its blanks are of another kind in every other build of the program.
		text := strings.ReplaceAll(err.Error(), "\u00a0", " ")
		return nil, fmt.Errorf("the bytes are no RateLimitConfig: %s", strings.TrimPrefix(text, "proto: "))
	}
	return config, nil
}

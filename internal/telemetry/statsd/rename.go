package statsd

import (
	"regexp"
	"strconv"
)

// Rule makes tags of parts of a name. In Name and in the values of Tags, $1
// stands for what the first group of Pattern matched, $0 for all that it matched;
// a group that Pattern does not have is left as it is written.
type Rule struct {
	Pattern *regexp.Regexp
	Name    string
	Tags    []Tag
}

// rename applies the first of rules that matches a name. Without one the name
// stays and gets no tags.
func rename(name string, rules []Rule) (newName string, tags []Tag) {
	for _, r := range rules {
		if groups := r.Pattern.FindStringSubmatch(name); groups != nil {
			for _, tag := range r.Tags {
				tags = append(tags, Tag{tag.Name, fill(tag.Value, groups)})
			}
			return fill(r.Name, groups), tags
		}
	}
	return name, nil
}

var placeholder = regexp.MustCompile(`\$\d+`)

func fill(text string, groups []string) string {
	return placeholder.ReplaceAllStringFunc(text, func(p string) string {
		if i, err := strconv.Atoi(p[1:]); err == nil && i < len(groups) {
			return groups[i]
		}
		return p
	})
}

package descriptors

import "weir/internal/strictyaml"

// partSize is how much of a large file is decoded at once, in bytes: a
// millisecond's work.
const partSize = 8 << 10

// decodeFile decodes a file, part by part if it is large, with a pause after
// each. What is wrong is told by the decoder. There is no fileConfig if it is not
// YAML.
func decodeFile(f File, pause func()) (*decoder, *fileConfig) {
	if d, config := decodeParts(f, partSize, pause); config != nil {
		return d, config
	}
	d := newDecoder(f.Name)
	if root := d.Parse(f.Data, "a domain and its descriptors"); root != nil {
		return d, d.file(root)
	}
	return d, nil
}

// decodeParts decodes a file part by part, with the same outcome as that of
// decoding it as a whole. There is no fileConfig if that is not possible.
func decodeParts(f File, size int, pause func()) (*decoder, *fileConfig) {
	parts := strictyaml.Split(f.Data, "descriptors", size)
	if parts == nil {
		return nil, nil
	}
	d := newDecoder(f.Name)
	config := d.file(parts.Head)
	config.descriptors = make([]descriptorConfig, 0, parts.Items())
	d.Enter(strictyaml.Step{Field: "descriptors"})
	defer d.Leave()
	for {
		items, ok := parts.Next()
		switch {
		case !ok:
			return nil, nil
		case len(items) == 0:
			return d, config
		}
		config.descriptors = d.appendDescriptors(config.descriptors, items)
		pause()
	}
}

package descriptors

import (
	"runtime"

	"weir/internal/descriptors/strictyaml"
)

// How much of a large file is decoded at once, in bytes.
const (
	partSize      = 8 << 10  // with pauses: a smaller file is parsed without any, in a millisecond
	largePartSize = 64 << 10 // by all processors, which seldom wait for each other then
)

// decodeFile decodes a file, part by part if it is large, with pauses; without
// them, all processors parse. What is wrong is told by the decoder.
// There is no fileConfig if it is not YAML.
func decodeFile(f File, opts Options) (*decoder, *fileConfig) {
	size, ahead := partSize, 0
	if opts.Pause == nil {
		size, ahead, opts.Pause = largePartSize, runtime.GOMAXPROCS(0), func() {}
	}
	if d, config := decodeParts(f, size, ahead, opts); config != nil {
		return d, config
	}
	d := newDecoder(f.Name, opts)
	if root := d.Parse(f.Data, "a domain and its descriptors"); root != nil {
		return d, d.file(root)
	}
	return d, nil
}

// decodeParts decodes a file part by part, with the same outcome as that of
// decoding it as a whole, unless the load shall end early. There is no
// fileConfig if that is not possible. ahead is as in strictyaml.Parts.
func decodeParts(f File, size, ahead int, opts Options) (*decoder, *fileConfig) {
	parts := strictyaml.Split(f.Data, "descriptors", size, opts.Pause)
	if parts == nil {
		return nil, nil
	}
	parts.Ahead = ahead
	d := newDecoder(f.Name, opts)
	config := d.file(parts.Head)
	config.descriptors = make([]descriptorConfig, 0, parts.Items())
	d.Enter(strictyaml.Step{Field: "descriptors"})
	defer d.Leave()
	for {
		items, ok := parts.Next()
		switch {
		case !ok:
			return nil, nil
		case len(items) == 0 || opts.ended() != nil:
			return d, config
		}
		config.descriptors = d.appendDescriptors(config.descriptors, items)
	}
}

package main

import (
	"bytes"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// colours differ even in print and for people with colour blindness.
var colours = []color.Color{
	color.RGBA{R: 0x6e, G: 0x77, B: 0x81, A: 0xff},
	color.RGBA{R: 0x09, G: 0x69, B: 0xda, A: 0xff},
	color.RGBA{R: 0xcf, G: 0x22, B: 0x2e, A: 0xff},
}

// line is one line of a plot.
type line struct {
	name   string
	points plotter.XYs
}

// picture draws a plot of lines. The y axis begins at 0.
func picture(title, x, y string, lines []line, logX bool) ([]byte, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Y.Min = 0
	if logX {
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	}
	if len(lines[0].points) == 0 {
		p.X.Min, p.X.Max = 1, 10 // nothing was measured yet
	}
	p.Add(plotter.NewGrid())
	for i, l := range lines {
		drawn, marks, err := plotter.NewLinePoints(l.points)
		if err != nil {
			return nil, err
		}
		drawn.Color, marks.Color = colours[i%len(colours)], colours[i%len(colours)]
		p.Add(drawn, marks)
		p.Legend.Add(l.name, drawn, marks)
	}
	p.Legend.Top, p.Legend.Left = true, true
	canvas := vgsvg.New(18*vg.Centimeter, 9*vg.Centimeter)
	p.Draw(vgdraw.New(canvas))
	var data bytes.Buffer
	_, err := canvas.WriteTo(&data)
	return data.Bytes(), err
}

// latencyPlot shows the latency against the rate.
func latencyPlot(r *results) ([]byte, error) {
	var lines []line
	for _, name := range []string{nameFloor, nameMemory, nameRedis} {
		l := line{name: name + ", p99"}
		for _, at := range r.Latency {
			if at.Name == name {
				l.points = append(l.points, plotter.XY{X: at.Rate, Y: at.P99.median() / 1000})
			}
		}
		lines = append(lines, l)
	}
	return picture("Latency against rate, one limit", "requests per second", "ms", lines, false)
}

// descriptorsPlot shows the cost against the number of descriptors.
func descriptorsPlot(r *results) ([]byte, error) {
	server, memory, redis := line{name: "server, counters in Redis"}, line{name: "server, counters in memory"}, line{name: "Redis"}
	for _, s := range r.Descriptors {
		x := float64(s.N)
		server.points = append(server.points, plotter.XY{X: x, Y: s.Redis.Server.median()})
		memory.points = append(memory.points, plotter.XY{X: x, Y: s.Memory.Server.median()})
		redis.points = append(redis.points, plotter.XY{X: x, Y: s.Redis.Redis.median()})
	}
	return picture("CPU time per decision against descriptors of the request", "descriptors, each with one limit", "µs", []line{memory, server, redis}, false)
}

// rulesPlot shows the cost against the number of rules.
func rulesPlot(r *results) ([]byte, error) {
	cpu := line{name: "server, counters in memory"}
	for _, c := range r.Rules {
		cpu.points = append(cpu.points, plotter.XY{X: float64(c.Rules), Y: c.CPU.median()})
	}
	return picture("CPU time per decision against number of rules", "rules", "µs", []line{cpu}, true)
}

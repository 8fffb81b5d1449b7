package main

import (
	"bytes"
	"fmt"
	"html"
	"time"
)

// These are the sizes of the parts of a chart, in pixels.
const (
	chartWidth  = 860
	panelHeight = 96
	marginLeft  = 44
	marginRight = 16
	marginTop   = 30 // for the chart's legend
	panelGap    = 34 // for the next panel's title
	axisHeight  = 30
)

// These colours differ even in print and for people with colour blindness.
const (
	colorText     = "#1f2328"
	colorGrid     = "#d8dee4"
	colorSent     = "#c9d1d9"
	colorAdmitted = "#0969da"
	colorLimit    = "#cf222e"
)

// canvas is the SVG text of a picture.
type canvas struct{ bytes.Buffer }

func newCanvas(title string, height int) *canvas {
	c := &canvas{}
	fmt.Fprintf(c, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="sans-serif" font-size="12" fill="%s">`+"\n",
		chartWidth, height, chartWidth, height, colorText)
	fmt.Fprintf(c, "<title>%s</title>\n", html.EscapeString(title))
	fmt.Fprintf(c, `<rect width="100%%" height="100%%" fill="white"/>`+"\n")
	return c
}

// chart is a column of panels above a shared time axis.
type chart struct {
	*canvas
	begin, end time.Duration // ends of the axis
	panels     int
}

func newChart(title string, begin, end time.Duration, panels int) *chart {
	height := marginTop + panels*(panelHeight+panelGap) + axisHeight
	return &chart{canvas: newCanvas(title, height), begin: begin, end: end, panels: panels}
}

// x returns the x coordinate of a time.
func (c *chart) x(t time.Duration) float64 {
	return marginLeft + float64(chartWidth-marginLeft-marginRight)*float64(t-c.begin)/float64(c.end-c.begin)
}

// panel is a part of a chart. Its own axis shows numbers from 0 to top.
type panel struct {
	*chart
	bottom float64
	top    int
}

// panel returns the panel with an index from 0. It draws the title and a grid with a
// line at every step.
func (c *chart) panel(index int, title string, top, step int) panel {
	p := panel{c, float64(marginTop + (index+1)*(panelHeight+panelGap)), top}
	c.text(marginLeft, p.bottom-panelHeight-8, "start", `font-weight="bold"`, title)
	for n := 0; n <= top; n += step {
		c.line(marginLeft, p.y(n), chartWidth-marginRight, p.y(n), colorGrid, "")
		c.text(marginLeft-6, p.y(n)+4, "end", "", fmt.Sprint(n))
	}
	for t := c.begin.Truncate(time.Minute) + time.Minute; t <= c.end; t += time.Minute {
		c.line(c.x(t), p.bottom-panelHeight, c.x(t), p.bottom, colorGrid, "")
	}
	return p
}

// y returns the y coordinate of a number.
func (p panel) y(n int) float64 { return p.bottom - panelHeight*float64(n)/float64(p.top) }

// bars draws a bar of the same width for each count, from the beginning of the axis.
func (p panel) bars(counts []int, width time.Duration, color string) {
	fmt.Fprintf(p, `<g fill="%s">`+"\n", color)
	for i, n := range counts {
		if n > 0 {
			from := p.x(p.begin + time.Duration(i)*width)
			fmt.Fprintf(p, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`+"\n",
				from, p.y(n), p.x(p.begin+time.Duration(i+1)*width)-from-0.5, p.bottom-p.y(n))
		}
	}
	fmt.Fprintf(p, "</g>\n")
}

// curve draws a curve through numbers at equal distances, from the beginning of the axis, and fills the area below it.
func (p panel) curve(numbers []int, width time.Duration, color string) {
	var path bytes.Buffer
	for i, n := range numbers {
		fmt.Fprintf(&path, " %.1f,%.1f", p.x(p.begin+time.Duration(i)*width), p.y(n))
	}
	right := p.x(p.begin + time.Duration(len(numbers)-1)*width)
	fmt.Fprintf(p, `<polygon points="%.1f,%.1f%s %.1f,%.1f" fill="%s" fill-opacity="0.15"/>`+"\n",
		p.x(p.begin), p.bottom, path.Bytes(), right, p.bottom, color)
	fmt.Fprintf(p, `<polyline points="%s" fill="none" stroke="%s" stroke-width="1.5"/>`+"\n", bytes.TrimSpace(path.Bytes()), color)
}

// axis draws the time axis below the last panel.
func (c *chart) axis() {
	y := float64(marginTop + c.panels*(panelHeight+panelGap))
	for t := c.begin; t <= c.end; t += 30 * time.Second {
		c.line(c.x(t), y, c.x(t), y+4, colorText, "")
		c.text(c.x(t), y+18, "middle", "", fmt.Sprintf("%d:%02d", t/time.Minute, t%time.Minute/time.Second))
	}
}

// legend draws an entry of the chart's legend at x, and returns the x coordinate of the next entry.
func (c *chart) legend(x float64, color, dash, text string) float64 {
	if dash == "" {
		fmt.Fprintf(c, `<rect x="%.1f" y="8" width="14" height="10" fill="%s"/>`+"\n", x, color)
	} else {
		c.line(x, 13, x+14, 13, color, dash)
	}
	c.text(x+20, 17, "start", "", text)
	return x + 44 + 6.2*float64(len(text))
}

func (c *canvas) line(x1, y1, x2, y2 float64, color, dash string) {
	attribute := ""
	if dash != "" {
		attribute = fmt.Sprintf(` stroke-width="1.5" stroke-dasharray="%s"`, dash)
	}
	fmt.Fprintf(c, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s"%s/>`+"\n", x1, y1, x2, y2, color, attribute)
}

func (c *canvas) text(x, y float64, anchor, attributes, text string) {
	if attributes != "" {
		attributes = " " + attributes
	}
	fmt.Fprintf(c, `<text x="%.1f" y="%.1f" text-anchor="%s"%s>%s</text>`+"\n", x, y, anchor, attributes, html.EscapeString(text))
}

// finish draws the axis and returns the finished picture.
func (c *chart) finish() []byte {
	c.axis()
	return c.canvas.finish()
}

func (c *canvas) finish() []byte {
	c.WriteString("</svg>\n")
	return c.Bytes()
}

/* SPDX-License-Identifier: MIT
 *
 * A device's interrupt line: a callback, so that devices know no interrupt controller. */
#ifndef VMM_DEVICE_IRQ_LINE_H
#define VMM_DEVICE_IRQ_LINE_H

#include <stdbool.h>

/* set() is called with the device's lock held, whenever the level changes. NULL = not connected. */
struct irq_line {
    void (*set)(void *opaque, unsigned irq, bool level);
    void *opaque;
    unsigned irq;
};

static inline void irq_line_set(const struct irq_line *line, bool level)
{
    if (line->set)
        line->set(line->opaque, line->irq, level);
}

#endif

package flyball

import "time"

// Condition is a condition of an object's status.
type Condition struct {
	Type string `json:"type"`
	// Status is `True`, `False` or `Unknown`.
	Status             string     `json:"status"`
	ObservedGeneration int64      `json:"observedGeneration,omitempty"`
	LastTransitionTime *time.Time `json:"lastTransitionTime,omitempty"`
	Reason             string     `json:"reason,omitempty"`
	Message            string     `json:"message,omitempty"`
}

// FindCondition returns the condition of this type; nil if there is none.
func FindCondition(conditions []Condition, conditionType string) *Condition {
	for i := range conditions {
		if conditions[i].Type == conditionType {
			return &conditions[i]
		}
	}
	return nil
}

// SetCondition sets a condition in place, as apimachinery's SetStatusCondition does: the transition time changes only
// if the status does. It returns whether anything changed.
func SetCondition(conditions *[]Condition, condition Condition, now time.Time) bool {
	if condition.LastTransitionTime == nil {
		second := now.UTC().Truncate(time.Second)
		condition.LastTransitionTime = &second
	}
	old := FindCondition(*conditions, condition.Type)
	if old == nil {
		*conditions = append(*conditions, condition)
		return true
	}
	if old.Status == condition.Status {
		condition.LastTransitionTime = old.LastTransitionTime
	}
	changed := old.Status != condition.Status || old.Reason != condition.Reason || old.Message != condition.Message ||
		old.ObservedGeneration != condition.ObservedGeneration
	*old = condition
	return changed
}

// RemoveCondition removes the condition of this type. It returns whether it existed.
func RemoveCondition(conditions *[]Condition, conditionType string) bool {
	for i := range *conditions {
		if (*conditions)[i].Type == conditionType {
			*conditions = append((*conditions)[:i:i], (*conditions)[i+1:]...)
			return true
		}
	}
	return false
}

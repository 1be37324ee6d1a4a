#: offers nki nki.language neuronxcc.nki.isa
import n‸

"""What a task finds around it: the driver's folder, path, variables and modules, and the packages it asks for; never
its code or its arguments."""
